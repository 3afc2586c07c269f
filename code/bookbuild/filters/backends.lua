--[[ How the book's numbers fare on other backends of Keras.

In:  Divs .backends-summary, .backends-table, .backends-ties; media/data/backends.json, ledger.toml
     and code/measured in the project's folder.
Out: sentences and tables made from them; a warning where the package or the list of entries has
     changed since.

Also for Quarto: `filters:`. The project's folder is Quarto's, else BOOK_ROOT.
]]
PANDOC_VERSION:must_be_at_least("3.2")

local path = pandoc.path
local NO_ENTRY = { constants = true, tied = true }

local function project_folder()
  if quarto and quarto.project and quarto.project.directory then return quarto.project.directory end
  return os.getenv("BOOK_ROOT") or "."
end

local function read(name)
  local handle = io.open(path.join({ project_folder(), name }), "rb")
  if not handle then return nil end
  local text = handle:read("a")
  handle:close()
  return (text:gsub("\r\n", "\n"))
end

local function text(value) return pandoc.Inlines(tostring(value)) end

local function whole(number) return text(("%d"):format(number)) end

local function para(said) return pandoc.Para(text(said)) end

local function cell(inlines) return pandoc.Cell({ pandoc.Plain(inlines) }) end

local function joined(parts)
  local all = table.concat(parts, ", ", 1, #parts - 1)
  return #parts > 1 and all .. " and " .. parts[#parts] or parts[1]
end

-- Rows are lists of Inlines; the columns from `right` on are numbers.
local function table_of(class, head, rows, right)
  local columns, cells = {}, {}
  for i, name in ipairs(head) do
    columns[i] = { i >= right and pandoc.AlignRight or pandoc.AlignDefault, nil }
    cells[i] = cell(text(name))
  end
  local body = { attr = pandoc.Attr(), body = {}, head = {}, row_head_columns = 0 }
  for i, row in ipairs(rows) do body.body[i] = pandoc.Row(row:map(cell)) end
  return pandoc.Table({ long = {} }, columns, pandoc.TableHead({ pandoc.Row(cells) }), { body },
    pandoc.TableFoot(), pandoc.Attr("", { class }))
end

-- How many entries came or went since, and which modules changed.
local function changed(record)
  local now, entries, modules = {}, 0, pandoc.List({})
  for id in ("\n" .. (read("ledger.toml") or "")):gmatch("\n%[([a-z0-9-]+)%]") do
    if not NO_ENTRY[id] then
      now[id] = true
      if not record.agreement[id] then entries = entries + 1 end
    end
  end
  for id in pairs(record.agreement) do
    if not now[id] then entries = entries + 1 end
  end
  for name, digest in pairs(record.made_from) do
    local content = read(name)
    if not content or pandoc.utils.sha1(content) ~= digest then modules:insert(name) end
  end
  modules:sort()
  return entries, modules
end

local function stale(record)
  local entries, modules = changed(record)
  if entries == 0 and #modules == 0 then return nil end
  local said = pandoc.Inlines({ pandoc.Strong(text("These results are out of date.")), pandoc.Space() })
  if entries > 0 then
    said:extend(text(("%d entries came or went since. "):format(entries)))
  end
  if #modules > 0 then
    said:extend(text("Changed since: "))
    for i, name in ipairs(modules) do
      if i > 1 then said:extend({ pandoc.Str(","), pandoc.Space() }) end
      said:insert(pandoc.Code(name))
    end
  end
  return pandoc.Div({ pandoc.Para(said) }, pandoc.Attr("", { "sure-stale" }))
end

local function summary(record)
  local blocks = pandoc.Blocks({})
  local warning = stale(record)
  if warning then blocks:insert(warning) end
  local agree = pandoc.List(record.backends):map(function(row)
    local fared = row.unmarked
    local total = fared.own + fared.same + fared.differs + fared.raised
    return ("%s %s"):format(total == fared.own and "all" or ("%d"):format(fared.own), "on " .. row.title)
  end)
  blocks:insert(para(("Of the %d entries of the ledger, %d are not tied to TensorFlow: %.1f %%. Within "
    .. "their tolerances agree %s."):format(record.entries, record.unmarked,
    100 * record.unmarked / record.entries, joined(agree))))
  return blocks
end

local function backends(record)
  local rows = pandoc.List(record.backends):map(function(row)
    local names, open, tied = pandoc.List({}), row.unmarked, row.tied
    for name, version in pairs(row.versions) do names:insert(name .. " " .. version) end
    names:sort()
    local farthest = pandoc.Inlines({ pandoc.Str("—") })
    if row.worst then
      farthest = pandoc.Inlines({ pandoc.Code(row.worst.id), pandoc.Str(":"), pandoc.Space(),
        pandoc.Str(("%.2f"):format(row.worst.tolerances)) })
    end
    return pandoc.List({ text(row.title), text(table.concat(names, ", ")), farthest,
      whole(open.own + tied.own), whole(open.same + tied.same), whole(open.differs + tied.differs),
      whole(open.raised + tied.raised) })
  end)
  return table_of("backends", { "Backend", "Versions", "Farthest that is not tied, in tolerances",
    "Agree", "With TensorFlow's draws", "Differ", "Not computed" }, rows, 4)
end

local function ties(record)
  if #record.ties == 0 then return para("No entry is tied to TensorFlow.") end
  local rows = pandoc.List(record.ties):map(function(tie)
    local row = pandoc.List({ text(tie.reason), whole(tie.entries) })
    for _, backend in ipairs(record.backends) do
      local fared = tie.backends[backend.name]
      row:insert(whole(fared.own))
      row:insert(whole(fared.same))
    end
    return row
  end)
  local head = pandoc.List({ "Reason", "Entries" })
  for _, backend in ipairs(record.backends) do
    head:insert(backend.title .. ": agree")
    head:insert("with TensorFlow's draws")
  end
  return table_of("backends-ties", head, rows, 2)
end

local MADE = {
  ["backends-summary"] = summary, ["backends-table"] = backends, ["backends-ties"] = ties,
}

local function div(element)
  for class, make in pairs(MADE) do
    if element.classes:includes(class) then
      local content = read("media/data/backends.json")
      if not content then
        return class == "backends-summary" and para("The other backends have not been tried yet.")
          or {}
      end
      local record = pandoc.json.decode(content, false)
      if record.format ~= 1 then
        error(("backends.json has format %s, not 1; run make backends")
          :format((tostring(record.format):gsub("%.0$", ""))), 0)
      end
      return make(record)
    end
  end
end

return { { Div = div } }
