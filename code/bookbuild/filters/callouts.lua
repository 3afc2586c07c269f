--[[ Callouts.

In:  Div .callout-KIND, with a title as attribute or as first heading; collapse, appearance, icon.
Out: Div .callout .callout-KIND with a header and a body; a collapsible one holds a <details>, so
     that it opens without a script.
]]
PANDOC_VERSION:must_be_at_least("3.0")

local NAMES = {
  note = "Note", tip = "Tip", warning = "Warning", important = "Important", caution = "Caution",
}

local function kind_of(div)
  for _, class in ipairs(div.classes) do
    local kind = class:match("^callout%-(.+)$")
    if NAMES[kind] then return kind end
  end
end

-- Value of an attribute, which must be one of `allowed`; nil when it is not given.
local function option(div, key, allowed)
  local value = div.attributes[key]
  if value == nil then return nil end
  for _, known in ipairs(allowed) do
    if value == known then return value end
  end
  error("`" .. key .. "=` of a callout is " .. table.concat(allowed, " or ") .. ", not " .. value, 0)
end

local function read_options(div)
  local collapse = option(div, "collapse", { "true", "false" })
  local appearance = option(div, "appearance", { "default", "simple", "minimal" }) or "default"
  local icon = option(div, "icon", { "true", "false" }) ~= "false" and appearance ~= "minimal"
  return { collapse = collapse, icon = icon, style = appearance == "default" and "default" or "simple" }
end

-- Title and body of a callout: the attribute, else the first heading, else the kind's name.
local function title_and_body(div, kind, style)
  local body = div.content
  if div.attributes.title then
    return pandoc.utils.blocks_to_inlines(pandoc.read(div.attributes.title, "markdown").blocks), body
  end
  if body[1] and body[1].t == "Header" then
    local title = body[1].content
    body:remove(1)
    return title, body
  end
  return style == "default" and pandoc.Inlines(NAMES[kind]) or pandoc.Inlines({}), body
end

-- The icon, in a `tag` that may stand where it is put: a <summary> takes no div.
local function icon_html(kind, tag)
  return ('<%s class="callout-icon-container"><i class="callout-icon" role="img" aria-label="%s"></i></%s>')
    :format(tag, NAMES[kind], tag)
end

local function header_block(kind, title, icon)
  local header = pandoc.Blocks({})
  if icon then header:insert(pandoc.RawBlock("html", icon_html(kind, "div"))) end
  header:insert(pandoc.Div({ pandoc.Plain(title) }, { class = "callout-title-container" }))
  return pandoc.Div(header, { class = "callout-header" })
end

local function foldable(kind, title, body, options)
  local summary = pandoc.Inlines({})
  if options.icon then summary:insert(pandoc.RawInline("html", icon_html(kind, "span"))) end
  summary:insert(pandoc.Span(title, { class = "callout-title-container" }))
  local open = options.collapse == "false" and " open" or ""
  return {
    pandoc.RawBlock("html", "<details" .. open .. '>\n<summary class="callout-header">'),
    pandoc.Plain(summary),
    pandoc.RawBlock("html", "</summary>"),
    body,
    pandoc.RawBlock("html", "</details>"),
  }
end

local function callout(div)
  local kind = kind_of(div)
  if not kind then return nil end
  local options = read_options(div)
  local title, content = title_and_body(div, kind, options.style)
  local classes = div.classes:filter(function(class) return class ~= "callout-" .. kind end)
  classes:extend({ "callout", "callout-style-" .. options.style, "callout-" .. kind })
  if not options.icon then classes:insert("no-icon") end
  local body = pandoc.Div(content, { class = "callout-body callout-body-container" })
  local blocks = pandoc.Blocks({})
  if #title > 0 then
    classes:insert("callout-titled")
    blocks = options.collapse and foldable(kind, title, body, options)
      or { header_block(kind, title, options.icon), body }
  else
    if options.collapse then
      error("`callout-" .. kind .. "` collapses, so it needs a title", 0)
    end
    if options.icon then blocks:insert(pandoc.RawBlock("html", icon_html(kind, "div"))) end
    blocks:insert(body)
  end
  for _, key in ipairs({ "title", "collapse", "appearance", "icon" }) do div.attributes[key] = nil end
  div.classes = classes
  div.content = blocks
  return div
end

return { { Div = callout } }
