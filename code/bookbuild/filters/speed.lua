--[[ What was measured of the build: beside other tools, and as the book grows.

In:  Divs .speed-machine, .speed-peers, .speed-shares, .speed-growth; media/data/bench.json in the
     project's folder.
Out: sentences and tables made from it.

Also for Quarto: `filters:`. The project's folder is Quarto's, else BOOK_ROOT.
]]
PANDOC_VERSION:must_be_at_least("3.2")

local path = pandoc.path
local OURS = "book"
local MEASURES = { "cold", "nothing changed", "one word", "one cell" }
local STEPS = { "execute", "render", "nothing changed", "one word" }

local function project_folder()
  if quarto and quarto.project and quarto.project.directory then return quarto.project.directory end
  return os.getenv("BOOK_ROOT") or "."
end

local function load(part)
  local handle = io.open(path.join({ project_folder(), "media", "data", "bench.json" }), "rb")
  if not handle then return nil end
  local content = handle:read("a")
  handle:close()
  local data = pandoc.json.decode(content, false)
  if data.format ~= 1 then error("`bench.json` is in a format that this page does not know", 0) end
  return data[part]
end

local function text(value) return pandoc.Inlines(tostring(value)) end

local function para(said) return pandoc.Para(text(said)) end

local function cell(said) return pandoc.Cell({ pandoc.Plain(text(said)) }) end

-- Rows are lists of texts; all columns but the first are numbers.
local function table_of(class, head, rows)
  local columns, cells = {}, {}
  for i, name in ipairs(head) do
    columns[i] = { i > 1 and pandoc.AlignRight or pandoc.AlignDefault, nil }
    cells[i] = cell(name)
  end
  local body = { attr = pandoc.Attr(), body = {}, head = {}, row_head_columns = 1 }
  for i, row in ipairs(rows) do body.body[i] = pandoc.Row(row:map(cell)) end
  return pandoc.Table({ long = {} }, columns, pandoc.TableHead({ pandoc.Row(cells) }), { body },
    pandoc.TableFoot(), pandoc.Attr("", { class }))
end

local function whole(number) return ("%d"):format(math.tointeger(number) or math.floor(number)) end

local function seconds(number) return number < 10 and ("%.2f"):format(number) or ("%.1f"):format(number) end

-- "0.41 (0.39–0.44)"; a narrow column breaks it before the bracket and not at the dash
local function spread(one, show)
  if not one then return "—" end
  return ("%s (%s\u{2060}–\u{2060}%s)"):format(show(one.median), show(one.min), show(one.max))
end

local function share(number) return ("%.2f"):format(number) end

-- Names of the tools: ours first, the others in the order of the alphabet.
local function names_of(tools)
  local names = pandoc.List({})
  for name in pairs(tools) do if name ~= OURS then names:insert(name) end end
  names:sort()
  names:insert(1, OURS)
  return names
end

local function head_of(first)
  local head = pandoc.List({ first })
  head:extend(pandoc.List(MEASURES):map(function(name) return name:gsub("^%l", string.upper) .. "" end))
  return head
end

local function rows_of(peers, what, show)
  return names_of(peers.tools):map(function(name)
    local row = pandoc.List({ name == OURS and "This build" or name .. " " .. peers.versions[name] })
    for _, measure in ipairs(MEASURES) do
      local found = peers.tools[name][measure]
      row:insert(spread(found and found[what], show))
    end
    return row
  end)
end

local function machine_of(part)
  local machine = part.machine
  return ("%s, %s cores, %s of memory, %s; Python %s, Keras %s, NumPy %s."):format(
    machine.processor, whole(machine.cores), machine.memory, machine.system, machine.python,
    machine.libraries.keras, machine.libraries.numpy)
end

local function quiet(part)
  return (" In the minute before, %.2f processes wanted a core on average."):format(part.load)
end

local function machine()
  local peers = load("peers") or load("growth")
  return para("Measured on: " .. machine_of(peers))
end

local function tools()
  local peers = load("peers")
  local said = ("A book of %s pages with %s cells, %s at a time where a tool can do so; %s repetitions, "
    .. "the median and in brackets the range, in seconds."):format(whole(peers.pages), whole(peers.cells),
    whole(peers.jobs), whole(peers.repetitions))
  return pandoc.Blocks({ para(said .. quiet(peers)),
    table_of("speed-peers", head_of("Tool"), rows_of(peers, "seconds", seconds)) })
end

local function shares()
  local peers = load("peers")
  local rows = rows_of(peers, "share", share)
  local wanted = pandoc.List({ "Wanted of this build, at most" })
  for _, measure in ipairs(MEASURES) do wanted:insert(share(peers.targets[measure])) end
  rows:insert(2, wanted)
  return table_of("speed-shares", head_of("Tool"), rows)
end

local function growth()
  local found = load("growth")
  if not found then return para("Not measured yet.") end
  local rows = pandoc.List(found.rows):map(function(one)
    local row = pandoc.List({ whole(one.chapters) })
    for _, step in ipairs(STEPS) do row:insert(seconds(one.steps[step].seconds)) end
    row:insert(("%d"):format(math.floor(one.steps["execute"].memory + 0.5)))
    row:insert(("%d"):format(math.floor(one.steps["nothing changed"].memory + 0.5)))
    return row
  end)
  local head = { "Chapters", "Execute", "Render", "Nothing changed", "One word", "Memory, executing",
    "Memory, nothing changed" }
  return pandoc.Blocks({
    para("Seconds, and the memory of the largest process in megabytes." .. quiet(found)),
    table_of("speed-growth", head, rows) })
end

local PARTS = { ["speed-machine"] = machine, ["speed-peers"] = tools, ["speed-shares"] = shares,
  ["speed-growth"] = growth }

local function div(element)
  for class, make in pairs(PARTS) do
    if element.classes:includes(class) then
      if class ~= "speed-growth" and not load("peers") then return para("Not measured yet.") end
      return make()
    end
  end
end

return { { Div = div } }
