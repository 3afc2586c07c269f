--[[ Run a hook's Python script, with whichever Python 3.11 or newer is here.

In:  the name of a script beside this file; the environment that Quarto gives to a project script.
Out: the script's exit code, 0 also where there is no such Python: a fresh freeze needs none.

Quarto runs a `.lua` script as `pandoc --from markdown --to plain --lua-filter SCRIPT`, in the
project's folder, and stops when pandoc's exit code is not 0.
]]
PANDOC_VERSION:must_be_at_least("3.0")

local path = pandoc.path
-- The script, if this Python is new enough to read it.
local START = "import runpy, sys; new = sys.version_info >= (3, 11); "
  .. "new and runpy.run_path(sys.argv[1], run_name='__main__'); sys.exit(0 if new else 111)"
-- Exit codes that are none of the script's: too old (ours), unknown option, not to be executed, not
-- found, and what Windows has in the place of a Python that was never installed.
local UNUSABLE = { [111] = true, [2] = true, [126] = true, [127] = true, [9009] = true }

local function candidates()
  local found = {}
  local told = os.getenv("QUARTO_PYTHON")
  if told and told ~= "" then found[1] = { told } end
  found[#found + 1] = { path.join({ ".venv", "bin", "python" }) }
  found[#found + 1] = { path.join({ ".venv", "Scripts", "python.exe" }) }
  for _, name in ipairs({ "python3", "python" }) do found[#found + 1] = { name } end
  found[#found + 1] = { "py", "-3" }
  return found
end

-- Exit code of a script under one Python; nil where that one cannot be used.
local function run(python, script)
  local arguments = { table.unpack(python, 2) }
  -- Alone: no installed package, no variable of the user's changes what the hook does.
  for _, one in ipairs({ "-I", "-S", "-X", "utf8", "-c", START, script }) do
    arguments[#arguments + 1] = one
  end
  local ok, result = pcall(pandoc.pipe, python[1], arguments, "")
  if ok then return 0 end
  if type(result) ~= "table" or UNUSABLE[result.error_code] then return nil end
  return result.error_code
end

return function(name)
  local script = path.join({ path.directory(PANDOC_SCRIPT_FILE), name })
  for _, python in ipairs(candidates()) do
    local code = run(python, script)
    if code then os.exit(code) end
  end
  if os.getenv("QUARTO_PROJECT_SCRIPT_QUIET") ~= "1" then
    io.stderr:write(("%s: no Python 3.11 or newer found; the freeze is taken as it is\n"):format(name))
  end
  os.exit(0)
end
