--[[ What the trial of faults gave: how sure the book's numbers are.

In:  Divs .sure-summary, .sure-faults, .sure-survivors, .sure-entries, .sure-spread;
     media/data/mutation.json and spread.json in the project's folder.
Out: sentences and tables made from them; a warning where the package or the list of faults has
     changed since.

Also for Quarto: `filters:`. The project's folder is Quarto's, else BOOK_ROOT.
]]
PANDOC_VERSION:must_be_at_least("3.2")

local path = pandoc.path
local WAYS = {
  { "number", "by a number outside its tolerance" }, { "leak", "by a leak detector" },
  { "error", "because a cell raised an error" }, { "timeout", "because a chapter ran far too long" },
}

local function project_folder()
  if quarto and quarto.project and quarto.project.directory then return quarto.project.directory end
  return os.getenv("BOOK_ROOT") or "."
end

local function read(name)
  local handle = io.open(path.join({ project_folder(), name }), "rb")
  if not handle then return nil end
  local text = handle:read("a")
  handle:close()
  return text
end

local function load(name)
  local text = read("media/data/" .. name)
  return text and pandoc.json.decode(text, false)
end

local function text(value) return pandoc.Inlines(tostring(value)) end

local function para(said) return pandoc.Para(text(said)) end

local function cell(inlines) return pandoc.Cell({ pandoc.Plain(inlines) }) end

local function count(number, one, many)
  return ("%d %s"):format(number, number == 1 and one or many or one .. "s")
end

local function percent(part, whole)
  if part == whole then return "all" end
  return ("%.1f %%"):format(100 * part / whole)
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

-- What has changed since the trial, as a list of paths.
local function changed(record)
  local found = pandoc.List({})
  for name, digest in pairs(record.made_from) do
    local content = read(name)
    if not content or pandoc.utils.sha1((content:gsub("\r\n", "\n"))) ~= digest then
      found:insert(name)
    end
  end
  found:sort()
  return found
end

local function tally(faults)
  local sums = { faults = #faults, found = 0, seconds = 0 }
  for _, fault in ipairs(faults) do
    if fault.how ~= "" then sums.found = sums.found + 1 end
    sums[fault.how] = (sums[fault.how] or 0) + 1
    sums.seconds = sums.seconds + fault.seconds
  end
  return sums
end

local function summary(record)
  local blocks, sums = pandoc.Blocks({}), tally(record.faults)
  local stale = changed(record)
  if #stale > 0 then
    local names = pandoc.Inlines({})
    for i, name in ipairs(stale) do
      if i > 1 then names:extend({ pandoc.Str(","), pandoc.Space() }) end
      names:insert(pandoc.Code(name))
    end
    local said = pandoc.Inlines({ pandoc.Strong(text("These results are out of date.")),
      pandoc.Space() })
    said:extend(text("Changed since: "))
    said:extend(names)
    blocks:insert(pandoc.Div({ pandoc.Para(said) }, pandoc.Attr("", { "sure-stale" })))
  end
  local ways = pandoc.List({})
  for _, way in ipairs(WAYS) do
    if sums[way[1]] then ways:insert(("%d %s"):format(sums[way[1]], way[2])) end
  end
  blocks:insert(para(("%d faults were tried. The book's own checks found %d of them (%s): %s. All "
    .. "trials together took %d minutes of computing."):format(sums.faults, sums.found,
    percent(sums.found, sums.faults), table.concat(ways, ", "), math.ceil(sums.seconds / 60))))
  return blocks
end

local function faults(record)
  local modules, order = {}, pandoc.List({})
  for _, fault in ipairs(record.faults) do
    if not modules[fault.file] then
      modules[fault.file] = pandoc.List({})
      order:insert(fault.file)
    end
    modules[fault.file]:insert(fault)
  end
  order:sort()
  local rows = order:map(function(file)
    local sums = tally(modules[file])
    return pandoc.List({ pandoc.Inlines({ pandoc.Code("measured/" .. file) }), text(sums.faults),
      text(sums.number or 0), text(sums.leak or 0), text((sums.error or 0) + (sums.timeout or 0)),
      text(sums[""] or 0) })
  end)
  local blocks = pandoc.Blocks({ table_of("sure-faults",
    { "Module", "Faults", "By a number", "By a leak detector", "By an error", "Not found" }, rows, 2) })
  local names = pandoc.List({})
  for name in pairs(record.out_of_reach) do names:insert(name) end
  names:sort()
  if #names > 0 then
    blocks:insert(para("Some modules have no faults here, because no number comes from them:"))
    blocks:insert(pandoc.BulletList(names:map(function(name)
      local said = pandoc.Inlines({ pandoc.Code("measured/" .. name), pandoc.Str(":"), pandoc.Space() })
      said:extend(text(record.out_of_reach[name]))
      return { pandoc.Plain(said) }
    end)))
  end
  return blocks
end

local function survivors(record)
  local rows = pandoc.List({})
  for _, fault in ipairs(record.faults) do
    if fault.how == "" then
      local what = text(fault.says)
      what:extend({ pandoc.LineBreak(), pandoc.Code(fault.file .. ": " .. fault.id) })
      local why = fault.survives ~= "" and fault.survives or "Not explained: a check is missing."
      rows:insert(pandoc.List({ what, text(why) }))
    end
  end
  if #rows == 0 then return para("No fault survived.") end
  return table_of("sure-survivors", { "Fault", "Why no check finds it" }, rows, 3)
end

local function entries(record)
  local found = record.entries
  local blocks = pandoc.Blocks({ para(("%d entries were moved in %d ways; %d of the moves were "
    .. "noticed (%s), and %d entries (%s) notice each of theirs."):format(found.entries, found.moves,
    found.noticed, percent(found.noticed, found.moves), found.sensitive,
    percent(found.sensitive, found.entries))) })
  if #found.unnoticed > 0 then
    local rows = pandoc.List(found.unnoticed):map(function(one)
      return pandoc.List({ pandoc.Inlines({ pandoc.Code(one.id) }), text(("%d"):format(one.moves)),
        text(("%d"):format(one.unnoticed)), text(("%.2f"):format(one.off)) })
    end)
    blocks:insert(table_of("sure-entries",
      { "Entry", "Moves", "Unnoticed", "Tolerances off centre" }, rows, 2))
  end
  return blocks
end

local function short(value)
  if type(value) ~= "number" then return tostring(value) end
  return value == 0 and "0" or ("%.1e"):format(value)
end

-- As in bookbuild.matrix: a tolerance of fewer spreads may fail on another machine by chance, one
-- of more may hide a drift.
local NARROW, WIDE = 2, 20

local function spread()
  local found = load("spread.json")
  if not found then return para("The spread has not been measured yet.") end
  local ids, rows = pandoc.List({}), pandoc.List({})
  local same, narrow, wide = 0, 0, 0
  for id, entry in pairs(found.entries) do
    if entry.spread == 0 then same = same + 1 else ids:insert(id) end
  end
  ids:sort()
  for _, id in ipairs(ids) do
    local entry = found.entries[id]
    local ratio = type(entry.spread) == "number" and entry.tolerance > 0
      and entry.tolerance / entry.spread
    if ratio and ratio < NARROW then narrow = narrow + 1 end
    if ratio and ratio > WIDE then wide = wide + 1 end
    rows:insert(pandoc.List({ pandoc.Inlines({ pandoc.Code(id) }), text(entry.where),
      text(short(entry.spread)), text(entry.tolerance == 0 and "exact" or short(entry.tolerance)),
      text(ratio and (ratio < 100 and "%.1f" or ratio < 1e5 and "%.0f" or "%.0e"):format(ratio)
        or "—") }))
  end
  local blocks = pandoc.Blocks({ para(("Environments: %s. In all of them %s the same value to the "
    .. "last bit, and %s."):format(table.concat(found.environments, ", "),
    count(same, "number had", "numbers had"), count(#ids, "number moved", "numbers moved"))) })
  if #rows > 0 then
    blocks:insert(para(("Of those that moved %s a tolerance under %d spreads, and %s one over %d.")
      :format(count(narrow, "has", "have"), NARROW, count(wide, "has", "have"), WIDE)))
    blocks:insert(table_of("sure-spread", { "Entry", "Farthest off", "Spread", "Tolerance",
      "Ratio" }, rows, 3))
  end
  return blocks
end

local MADE = {
  ["sure-summary"] = summary, ["sure-faults"] = faults, ["sure-survivors"] = survivors,
  ["sure-entries"] = entries,
}

local function div(element)
  if element.classes:includes("sure-spread") then return spread() end
  for class, make in pairs(MADE) do
    if element.classes:includes(class) then
      local record = load("mutation.json")
      if not record then return para("No fault has been tried yet.") end
      if record.format ~= 1 then
        error(("mutation.json has format %s, not 1; run make mutate")
          :format((tostring(record.format):gsub("%.0$", ""))), 0)
      end
      return make(record)
    end
  end
end

return { { Div = div } }
