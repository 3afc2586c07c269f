--[[ A page whose references are resolved and whose floats are plain. Runs after the citations.

In:  the marks of references.lua, the HTML around captions of floats.lua, cells with their options;
     metadata book-targets: label -> {href, text, number, title}.
Out: links with their text; Figure and Div .float with Div .caption first; code without options, and
     Div .file-name before code that has a name. No raw HTML but inline tags of the author's own.
     Attributes data-… are gone but for data-claim(s), which say what a number rests on.
]]
PANDOC_VERSION:must_be_at_least("3.2")

local stringify = pandoc.utils.stringify
local targets = {}

local function label_of(inline, kind)
  if inline.t ~= "RawInline" or inline.format ~= "html" then return nil end
  return inline.text:match("^<!%-%-xref%-" .. kind .. " ?(.-)%-%->$")
end

local function title_inlines(html)
  html = html:gsub("<!%-%-xref%-.-%-%->", "")
  return pandoc.utils.blocks_to_inlines(pandoc.read(html, "html+tex_math_dollars").blocks)
end

local function named(label, number_alone)
  local target = targets[label]
  if not target then error("`@" .. label .. "` refers to a label that nothing in this book has", 0) end
  local title = stringify(target.title or "")
  if title ~= "" then return title_inlines(title) end
  return pandoc.Inlines({ pandoc.Str(stringify(number_alone and target.number or target.text)) })
end

local function resolve_marks(inlines)
  local out, link, changed = pandoc.Inlines({}), nil, false
  for _, inline in ipairs(inlines) do
    local opened = label_of(inline, "open")
    local text, number = label_of(inline, "text"), label_of(inline, "number")
    if opened then
      local target = targets[opened]
      if not target then error("`@" .. opened .. "` refers to a label that nothing in this book has", 0) end
      link, changed = pandoc.Link({}, stringify(target.href), "", { class = "xref" }), true
    elseif label_of(inline, "close") then
      out:insert(link)
      link = nil
    elseif text or number then
      (link and link.content or out):extend(named(text or number, number ~= nil))
    else
      (link and link.content or out):insert(inline)
    end
  end
  if changed then return out end
end

-- Code is told from a cell's output by its class; what is done with folds and files is done here.
local function code(block)
  local name = block.attributes.filename
  local classes = block.classes:filter(function(class) return class ~= "numberLines" end)
  local plain = pandoc.CodeBlock(block.text, pandoc.Attr(block.identifier, classes))
  if not name then return plain end
  return { pandoc.Div({ pandoc.Plain({ pandoc.Code(name) }) }, { class = "file-name" }), plain }
end

local function is_raw(block, pattern)
  return block and block.t == "RawBlock" and block.text:match(pattern) ~= nil
end

-- A float whose caption stands above it, which floats.lua spells in HTML.
local function captioned(div)
  local kind = div.content[1].text:match("quarto%-float%-(%a+) figure")
  local out = pandoc.Blocks({ pandoc.Div({ div.content[2] }, { class = "caption" }) })
  for i = 4, #div.content - 1 do out:insert(div.content[i]) end
  return pandoc.Div(out, pandoc.Attr(div.identifier, { "float", "float-" .. kind }))
end

local function keep_claims(element)
  for key, _ in pairs(element.attributes) do
    local kept = key == "data-claim" or key == "data-claims" or key == "data-layout-ncol"
      or key == "lang" or key == "width" or key == "number" or key == "startFrom"
    if not kept then element.attributes[key] = nil end
  end
  return element
end

local function div(element)
  if is_raw(element.content[1], '^<figure class="quarto%-float') then element = captioned(element) end
  if element.classes:includes("attention-map") or element.classes:includes("exercise-check") then
    element.identifier = ""
  end
  return keep_claims(element)
end

return {
  { Meta = function(meta) targets = meta["book-targets"] or {} end },
  { Inlines = resolve_marks },
  {
    Div = div, CodeBlock = code, Header = keep_claims, Span = keep_claims, Image = keep_claims,
    Meta = function(meta)
      meta["book-targets"] = nil
      return meta
    end,
  },
}
