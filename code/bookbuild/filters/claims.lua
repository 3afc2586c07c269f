--[[ Verified numbers inside formulas, and those that words say.

In:  $x = [7.0711]{.claim data-claim="pe-norm" title="…"}$, which is what an inline `say` leaves
     there. pandoc reads no Markdown inside a formula, so the span is part of its text.
     [ninefold]{.worded data-claim="ed-cost" data-over="…" data-at="…"}, which the author wrote.
Out: Span .claim-formula data-claims="pe-norm" title="…" around the formula $x = 7.0711$.
     Span .worded .claim with the title that the numbers.json of a frozen chapter gives for its ids.

Every digit, sign and full stop stays; only their spelling becomes TeX. The freeze lies in the
project's folder, or is BOOK_FREEZE. Also for Quarto: `filters:`,
where a displayed formula is left without the span.
]]
PANDOC_VERSION:must_be_at_least("3.2")

local OPENING = "]{.claim "
local SUPERSCRIPT = {
  ["⁰"] = "0", ["¹"] = "1", ["²"] = "2", ["³"] = "3", ["⁴"] = "4", ["⁵"] = "5", ["⁶"] = "6",
  ["⁷"] = "7", ["⁸"] = "8", ["⁹"] = "9", ["⁻"] = "-",
}
local TEX = {
  ["−"] = "-", ["×"] = "\\times ", ["±"] = "\\pm ", ["·"] = "\\cdot ", ["≈"] = "\\approx ",
  ["\u{a0}"] = "\\,", ["\u{202f}"] = "\\,",
  ["%"] = "\\%", ["#"] = "\\#", ["&"] = "\\&", ["_"] = "\\_", ["$"] = "\\$",
  ["{"] = "\\{", ["}"] = "\\}", ["\\"] = "\\backslash ", ["^"] = "\\hat{}", ["~"] = "\\sim ",
}

-- The characters of a UTF-8 text, as a list.
local function characters(text)
  local found = {}
  for _, code in utf8.codes(text) do found[#found + 1] = utf8.char(code) end
  return found
end

local function is_digit(character) return character ~= nil and character:match("^%d$") ~= nil end

local function is_letter(character)
  return character ~= nil and (character:match("^%a$") ~= nil or character == "µ" or character == "μ")
end

-- A number, list, shape or word as `say` prints it -> TeX.
local function tex(text)
  local chars, out, i = characters(text), {}, 1
  while i <= #chars do
    local char = chars[i]
    if char == "," and is_digit(chars[i - 1]) and is_digit(chars[i + 1]) then
      out[#out + 1] = "{,}"
    elseif char == " " then
      out[#out + 1] = chars[i - 1] == "," and " " or "\\ "
    elseif SUPERSCRIPT[char] then
      local power = {}
      while SUPERSCRIPT[chars[i]] do
        power[#power + 1] = SUPERSCRIPT[chars[i]]
        i = i + 1
      end
      out[#out + 1] = "^{" .. table.concat(power) .. "}"
      i = i - 1
    elseif is_letter(char) then
      local word = {}
      while is_letter(chars[i]) or (chars[i] == " " and is_letter(chars[i + 1])) do
        word[#word + 1] = chars[i] == " " and "\\ " or chars[i]
        i = i + 1
      end
      out[#out + 1] = "\\mathrm{" .. table.concat(word) .. "}"
      i = i - 1
    else
      out[#out + 1] = TEX[char] or char
    end
    i = i + 1
  end
  return (table.concat(out):gsub("\\times (%d)", "\\times %1"))
end

-- Where the bracket closes that the text before `finish` has left open.
local function opening_bracket(text, finish)
  local depth = 0
  for i = finish, 1, -1 do
    local char = text:sub(i, i)
    if char == "]" then depth = depth + 1 end
    if char == "[" then
      depth = depth - 1
      if depth == 0 then return i end
    end
  end
  error("`" .. text .. "` holds a claim whose bracket does not open", 0)
end

-- Attributes from `start` up to the closing brace -> {key: value}, place of the brace.
local function parse_attributes(text, start)
  local found, at = {}, start
  while true do
    at = text:find("%S", at) or #text + 1
    if text:sub(at, at) == "}" then return found, at end
    local key, after = text:match('^([%w-]+)="()', at)
    if not key then
      key, after = text:match("^([%w-]+)=()", at)
      if not key then error("`" .. text .. "` holds a claim that does not end", 0) end
      found[key], at = text:match("^([^%s}]+)()", after)
    else
      local value = {}
      while text:sub(after, after) ~= '"' do
        if after > #text then error("`" .. text .. "` holds a claim that does not end", 0) end
        if text:sub(after, after) == "\\" then after = after + 1 end
        value[#value + 1] = text:sub(after, after)
        after = after + 1
      end
      found[key], at = table.concat(value), after + 1
    end
  end
end

-- Text without Markdown's escapes: `\[` and `7\.07` are how Markdown spells what is meant.
local function unescape(text) return (text:gsub("\\(%p)", "%1")) end

local function resolve(math)
  local text, ids, titles = math.text, {}, {}
  local finish = text:find(OPENING, 1, true)
  while finish do
    local start = opening_bracket(text, finish)
    local claim, brace = parse_attributes(text, finish + #OPENING)
    if not claim["data-claim"] then error("`" .. text .. "` holds a claim without data-claim", 0) end
    ids[#ids + 1] = claim["data-claim"]
    titles[#titles + 1] = claim.title
    local number = tex(unescape(text:sub(start + 1, finish - 1)))
    text = text:sub(1, start - 1) .. number .. text:sub(brace + 1)
    finish = text:find(OPENING, 1, true)
  end
  if #ids == 0 then return nil end
  math.text = text
  -- Quarto finds an equation's label only right behind the formula itself.
  if quarto and math.mathtype == "DisplayMath" then return math end
  local attributes = { { "data-claims", table.concat(ids, " ") } }
  if #titles > 0 then attributes[2] = { "title", table.concat(titles, "; ") } end
  return pandoc.Span({ math }, pandoc.Attr("", { "claim-formula" }, attributes))
end

-- Numbers in words. --

local path, system = pandoc.path, pandoc.system

local function freeze_folder()
  local folder = quarto and quarto.project and quarto.project.directory or os.getenv("BOOK_ROOT") or "."
  return os.getenv("BOOK_FREEZE") or path.join({ folder, "_freeze" })
end

-- All checked numbers by id, from every numbers.json below a folder.
local function load_numbers(folder, found)
  local ok, names = pcall(system.list_directory, folder)
  for _, name in ipairs(ok and names or {}) do
    local below = path.join({ folder, name })
    if name == "numbers.json" then
      local handle = io.open(below, "rb")
      local text = handle and handle:read("a") or "{}"
      if handle then handle:close() end
      for _, number in ipairs(pandoc.json.decode(text, false).numbers or {}) do
        found[number.id] = number
      end
    elseif name ~= "figure-html" then
      load_numbers(below, found)
    end
  end
  return found
end

local numbers

-- `Statement: 7.0711. Expected 7.0711, within 1e-4: reason. Source: paper`
local function described(id)
  numbers = numbers or load_numbers(freeze_folder(), {})
  local number = numbers[id]
  if not number then return nil end
  local band = number.tolerance == "exact" and "exactly" or "within " .. number.tolerance
  return ("%s: %s. Expected %s, %s: %s. Source: %s"):format(number.statement, number.shown,
    number.expected, band, number.reason, number.source)
end

local function in_words(span)
  if not span.classes:includes("worded") then return nil end
  local titles = {}
  for _, key in ipairs({ "data-claim", "data-over" }) do
    local id = span.attributes[key]
    if id then titles[#titles + 1] = described(id) end
  end
  if #titles > 0 then span.attributes.title = table.concat(titles, "; divided by: ") end
  span.classes:insert("claim")
  return span
end

return { { Math = resolve, Span = in_words } }
