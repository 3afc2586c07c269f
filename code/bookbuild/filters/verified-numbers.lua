--[[ The tables of all verified numbers.

In:  Div .verified-numbers, and Div .verified-summary; _freeze/**/execute-results/numbers.json.
Out: a heading and a table for each chapter, in the order of _quarto.yml, with a row #number-ID for
     each number; a sentence that counts them.

Also for Quarto: `filters:`. The project's folder is Quarto's, else BOOK_ROOT; the freeze lies in it,
or is BOOK_FREEZE.
]]
PANDOC_VERSION:must_be_at_least("3.2")

local path, system = pandoc.path, pandoc.system
-- Name and share of the width. Long arrays would else push the texts into narrow columns.
local COLUMNS = {
  { "Number", 0.15 }, { "What it is", 0.27 }, { "Expected", 0.15 }, { "Tolerance", 0.18 },
  { "Deviation", 0.09 }, { "Source", 0.16 },
}

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

-- Every execute-results folder below a folder, as a list.
local function result_folders(folder, found)
  found = found or {}
  local ok, names = pcall(system.list_directory, folder)
  if not ok then return found end
  table.sort(names)
  for _, name in ipairs(names) do
    local below = path.join({ folder, name })
    if name == "execute-results" then
      found[#found + 1] = below
    elseif name ~= "figure-html" then
      result_folders(below, found)
    end
  end
  return found
end

-- Place of a chapter in the book: where _quarto.yml names it.
local function place(config, chapter)
  return config:find(chapter, 1, true) or math.maxinteger
end

local function load_chapters()
  local config = read(path.join({ project_folder(), "_quarto.yml" })) or ""
  local chapters = {}
  for _, folder in ipairs(result_folders(freeze_folder())) do
    local file = path.join({ folder, "numbers.json" })
    local text = read(file)
    local data = text and pandoc.json.decode(text, false)
    if data then
      if data.format ~= 1 then
        error(("`numbers.json` of %s has format %s, not 1; execute the chapter again")
          :format(data.chapter, (tostring(data.format):gsub("%.0$", ""))), 0)
      end
      data.place = place(config, data.chapter)
      data.frozen = read(path.join({ folder, "html.json" })) or ""
      if #data.numbers > 0 then chapters[#chapters + 1] = data end
    end
  end
  table.sort(chapters, function(a, b)
    if a.place ~= b.place then return a.place < b.place end
    return a.chapter < b.chapter
  end)
  return chapters
end

local function text(value) return pandoc.Inlines(tostring(value)) end

-- Link to the cell that checks a number, under the id it has there; to the page, if it shows none.
local function link_to(chapter, number)
  local target = "/" .. chapter.chapter
  for _, id in ipairs({ "cell-" .. tostring(number.cell), tostring(number.cell) }) do
    if number.cell ~= "" and chapter.frozen:find("::: {#" .. id .. " .cell", 1, true) then
      target = target .. "#" .. id
      break
    end
  end
  return pandoc.Link(text(number.shown), target)
end

local function deviation(value)
  if type(value) ~= "number" then return "—" end
  if value == 0 then return "0" end
  return value < 0.01 and "< 0.01" or ("%.2f"):format(value)
end

local function cell(inlines) return pandoc.Cell({ pandoc.Plain(inlines) }) end

local function row(chapter, number)
  local what = text(number.statement)
  what:extend({ pandoc.LineBreak(), pandoc.Code(number.id, { class = "number-id" }) })
  local tolerance = text(number.tolerance)
  if number.reason and number.reason ~= "" then
    tolerance:insert(pandoc.LineBreak())
    tolerance:extend(text(number.reason))
  end
  return pandoc.Row({
    cell({ link_to(chapter, number) }), cell(what), cell(text(number.expected)), cell(tolerance),
    cell(text(deviation(number.deviation))), cell(text(number.source)),
  }, pandoc.Attr("number-" .. number.id))
end

local function table_of(chapter)
  local columns, head, rows = {}, {}, {}
  for i, column in ipairs(COLUMNS) do
    columns[i] = { pandoc.AlignDefault, column[2] }
    head[i] = cell(text(column[1]))
  end
  for i, number in ipairs(chapter.numbers) do rows[i] = row(chapter, number) end
  local body = { attr = pandoc.Attr(), body = rows, head = {}, row_head_columns = 0 }
  return pandoc.Table({ long = {} }, columns, pandoc.TableHead({ pandoc.Row(head) }), { body },
    pandoc.TableFoot(), pandoc.Attr("", { "verified-numbers" }))
end

local function nothing_yet() return pandoc.Para(text("No number has been verified yet.")) end

local function tables()
  local blocks, chapters = pandoc.Blocks({}), load_chapters()
  if #chapters == 0 then return nothing_yet() end
  for _, chapter in ipairs(chapters) do
    local id = "numbers-" .. chapter.chapter:gsub("%.qmd$", ""):gsub("^.*/", "")
    blocks:insert(pandoc.Header(2, text(chapter.title), pandoc.Attr(id)))
    blocks:insert(table_of(chapter))
  end
  return blocks
end

local function count(number, word) return ("%d %s%s"):format(number, word, number == 1 and "" or "s") end

local function summary()
  local chapters, numbers = load_chapters(), 0
  if #chapters == 0 then return nothing_yet() end
  for _, chapter in ipairs(chapters) do numbers = numbers + #chapter.numbers end
  return pandoc.Para(text(("%s in %s: each was computed again when this book was built, and lies "
    .. "within its tolerance."):format(count(numbers, "verified number"), count(#chapters, "chapter"))))
end

local function div(element)
  if element.classes:includes("verified-numbers") then return tables() end
  if element.classes:includes("verified-summary") then return summary() end
end

return { { Div = div } }
