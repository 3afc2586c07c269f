--[[ The libraries that the book was computed with.

In:  Div .environment-table; inputs.json and numbers.json in _freeze/**/execute-results/.
Out: a table of library, version and the chapters that ran with it; Python comes first.

Also for Quarto: `filters:`. The project's folder is Quarto's, else BOOK_ROOT; the freeze lies in it,
or is BOOK_FREEZE.
]]
PANDOC_VERSION:must_be_at_least("3.2")

local path, system = pandoc.path, pandoc.system

local function project_folder()
  if quarto and quarto.project and quarto.project.directory then return quarto.project.directory end
  return os.getenv("BOOK_ROOT") or "."
end

local function freeze_folder()
  return os.getenv("BOOK_FREEZE") or path.join({ project_folder(), "_freeze" })
end

local function read(file)
  local handle = io.open(file, "rb")
  if not handle then return nil end
  local text = handle:read("a")
  handle:close()
  return text
end

-- Chapters with a freeze below a folder -> list of {path, folder}; `name` is the path so far.
local function frozen_chapters(folder, name, found)
  local ok, names = pcall(system.list_directory, folder)
  if not ok then return found end
  table.sort(names)
  for _, below in ipairs(names) do
    local place = path.join({ folder, below })
    if below == "execute-results" then
      found[#found + 1] = { path = name .. ".qmd", folder = place }
    elseif below ~= "figure-html" then
      frozen_chapters(place, name == "" and below or name .. "/" .. below, found)
    end
  end
  return found
end

local function load_chapters()
  local config = read(path.join({ project_folder(), "_quarto.yml" })) or ""
  local chapters = {}
  for _, chapter in ipairs(frozen_chapters(freeze_folder(), "", {})) do
    local inputs = read(path.join({ chapter.folder, "inputs.json" }))
    if inputs then
      local numbers = pandoc.json.decode(read(path.join({ chapter.folder, "numbers.json" })) or "{}", false)
      local data = pandoc.json.decode(inputs, false)
      chapter.libraries = data.libraries or {}
      chapter.python = data.python or (numbers.environment or {}).python
      chapter.title = numbers.title or chapter.path
      chapter.place = config:find(chapter.path, 1, true) or math.maxinteger
      chapters[#chapters + 1] = chapter
    end
  end
  table.sort(chapters, function(a, b)
    if a.place ~= b.place then return a.place < b.place end
    return a.path < b.path
  end)
  return chapters
end

-- Rows {name, version, chapters}: one for each version of each library.
local function rows_of(chapters)
  local rows, known = {}, {}
  local function add(name, version, chapter, first)
    local key = name .. " " .. version
    if not known[key] then
      known[key] = { name = name, version = version, chapters = {}, first = first }
      rows[#rows + 1] = known[key]
    end
    table.insert(known[key].chapters, chapter)
  end
  for _, chapter in ipairs(chapters) do
    if chapter.python then add("Python", chapter.python, chapter, true) end
    for name, version in pairs(chapter.libraries) do add(name, version, chapter, false) end
  end
  table.sort(rows, function(a, b)
    if a.first ~= b.first then return a.first end
    if a.name ~= b.name then return a.name < b.name end
    return a.version < b.version
  end)
  return rows
end

local function text(value) return pandoc.Inlines(tostring(value)) end

local function cell(inlines) return pandoc.Cell({ pandoc.Plain(inlines) }) end

local function chapter_links(row, total)
  if total > 1 and #row.chapters == total then return text("all") end
  local inlines = pandoc.Inlines({})
  for i, chapter in ipairs(row.chapters) do
    if i > 1 then inlines:extend({ pandoc.Str(","), pandoc.Space() }) end
    inlines:insert(pandoc.Link(text(chapter.title), "/" .. chapter.path))
  end
  return inlines
end

local function environment_table()
  local chapters = load_chapters()
  local rows = {}
  for i, row in ipairs(rows_of(chapters)) do
    rows[i] = pandoc.Row({
      cell(text(row.name)), cell({ pandoc.Code(row.version) }), cell(chapter_links(row, #chapters)),
    })
  end
  local columns, head = {}, {}
  for i, name in ipairs({ "Library", "Version", "Chapters" }) do
    columns[i] = { pandoc.AlignDefault, nil }
    head[i] = cell(text(name))
  end
  return pandoc.Table({ long = {} }, columns, pandoc.TableHead({ pandoc.Row(head) }),
    { { attr = pandoc.Attr(), body = rows, head = {}, row_head_columns = 0 } }, pandoc.TableFoot(),
    pandoc.Attr("", { "environment-table" }))
end

return {
  {
    Div = function(div)
      if div.classes:includes("environment-table") then return environment_table() end
    end,
  },
}
