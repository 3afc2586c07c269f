--[[ Refuse what this build does not render.

In:  the document as pandoc's reader gives it, before any other filter.
Out: the same document without HTML comments, or an error.

Quarto gives a meaning to many classes, attributes and labels; rendering one as if it were plain
would lose that meaning without a word. A class or `data-` attribute of the book's own passes.
The first `quoted` part of a message is what bookbuild looks up in the source to name the line.
]]
PANDOC_VERSION:must_be_at_least("3.2")

local function set(words)
  local found = {}
  for word in words:gmatch("%S+") do found[word] = true end
  return found
end

local CALLOUTS = set("callout-note callout-tip callout-warning callout-important callout-caution")
local CLASSES = set([[content-visible content-hidden panel-input panel-fill panel-center panel-sidebar
  sidebar columns column aside grid hidden proof remark solution theorem appendix tabset incremental
  fragment lightbox include hero-banner]])
local THEOREMS = set("thm lem cor prp cnj def exm exr sol rem alg nte tip wrn imp cau")
local GLOBAL = set("title lang dir role tabindex style")
local ATTRIBUTES = {
  Cell = set("execution_count filename class-output layout-ncol tbl-cap fig-width fig-height"),
  Output = set("execution_count"),
  Callout = set("collapse appearance icon"),
  Div = set("layout-ncol tbl-cap"),
  CodeBlock = set("code-fold code-summary code-line-numbers lst-cap filename startFrom"),
  Image = set("fig-alt width height"),
  Link = set("target rel"),
  Code = {}, Header = {}, Span = {}, Table = {},
}

local function is_callout(class) return class == "callout" or class:match("^callout%-") ~= nil end

-- Which list of attributes belongs to a div.
local function div_kind(div)
  for _, class in ipairs(div.classes) do
    if class == "cell" then return "Cell" end
    if class == "cell-output" then return "Output" end
    if is_callout(class) then return "Callout" end
  end
  return "Div"
end

local function check_classes(element, what)
  for _, class in ipairs(element.classes) do
    if is_callout(class) and not (what == "divs" and CALLOUTS[class]) then
      error("`" .. class .. "` is not a kind of callout; there are note, tip, warning, important "
        .. "and caution", 0)
    end
    if CLASSES[class] or class:match("^quarto%-") or class:match("^g%-col")
      or (class:match("^column%-") and class ~= "column-margin") then
      error("`" .. class .. "` has a meaning in Quarto that this build does not render", 0)
    end
  end
end

local function check_attributes(element, what, known)
  for key, _ in pairs(element.attributes) do
    if not (known[key] or GLOBAL[key] or key:match("^data%-") or key:match("^aria%-")) then
      error("`" .. key .. "` is an attribute that this build does not render on " .. what, 0)
    end
  end
end

-- A theorem, or a callout that can be referred to. A cell may be called what it likes.
local function check_label(div)
  local kind = div.identifier:match("^(%a+)%-.")
  if kind and THEOREMS[kind] and div_kind(div) ~= "Cell" and div_kind(div) ~= "Output" then
    error("`" .. div.identifier .. "` is a label of a kind that this build does not number", 0)
  end
end

local function checker(kind, what)
  return function(element)
    check_classes(element, what)
    check_attributes(element, what, ATTRIBUTES[kind])
  end
end

local function check_div(div)
  check_classes(div, "divs")
  check_attributes(div, "divs", ATTRIBUTES[div_kind(div)])
  check_label(div)
end

local function check_str(str)
  local shortcode = str.text:match("{{[<%%]") or str.text:match("[%%>]}}")
  if shortcode then
    error("`" .. shortcode .. "` is a shortcode of Quarto, which this build does not run", 0)
  end
  local note = str.text:match("%[%^[^%]%s]+%]")
  if note then error("`" .. note .. "` is a footnote that is not defined", 0) end
end

local function check_raw_block(raw)
  if raw.format == "html" and raw.text:match("^%s*<!%-%-.*%-%->%s*$") then return {} end
  local first = raw.text:match("[^\n]+") or ""
  error("`" .. first .. "` is a raw " .. raw.format .. " block, which this build does not pass on; "
    .. "write Markdown, or a span such as `<b>x</b>`{=html}", 0)
end

local function check_raw_inline(raw)
  if raw.format ~= "html" then
    error("`" .. raw.text .. "` is raw " .. raw.format .. ", which a page would drop", 0)
  end
  if raw.text:match("^<!%-%-") then return {} end
end

local code = checker("Code", "code")

local function check_code(element)
  if element.text:match("^{%a+} ") then
    error("`" .. element.text .. "` is a cell or an expression that was not executed", 0)
  end
  code(element)
end

return {
  {
    Div = check_div,
    CodeBlock = checker("CodeBlock", "code blocks"),
    Image = checker("Image", "images"),
    Link = checker("Link", "links"),
    Header = checker("Header", "headings"),
    Span = checker("Span", "spans"),
    Table = checker("Table", "tables"),
    Code = check_code,
    Str = check_str,
    RawBlock = check_raw_block,
    RawInline = check_raw_inline,
  },
}
