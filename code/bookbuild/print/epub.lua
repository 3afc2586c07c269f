--[[ The whole book for EPUB: what the site does by script or style, in elements that any reader has.

In:  the joined pages.
Out: callouts as asides with a title, formulas with their numbers beside them, figures with their
     captions, tables without the widths of columns that a page on paper has.
]]
PANDOC_VERSION:must_be_at_least("3.2")

local stringify = pandoc.utils.stringify

local function header(element)
  local number = element.attributes.number
  element.attributes = {}
  if element.level == 1 and number and number ~= "" then
    local text = number:match("%d") and number or "Appendix " .. number
    element.content:insert(1, pandoc.Space())
    element.content:insert(1, pandoc.Span({ pandoc.Str(text) }, { class = "chapter-number" }))
  end
  return element
end

-- The alternative text is what the image carries; the caption stands below.
local function image(element)
  local width = element.attributes.width
  element.attributes = {}
  if width and width:match("^%d+$") then element.attributes.width = width end
  if #element.caption == 0 then element.attributes.alt = "" end
  return element
end

local function equation(element)
  if not element.classes:includes("equation") then return nil end
  local number = ""
  element:walk({
    Span = function(inner)
      if inner.classes:includes("eq-number") then number = stringify(inner) end
    end,
  })
  element.content = element.content:filter(function(inline)
    return not (inline.t == "Span" and inline.classes:includes("eq-number"))
  end)
  element.content:insert(pandoc.Span({ pandoc.Str(number) }, { class = "eq-number" }))
  return element
end

local function div(element)
  element.attributes = {}
  if element.classes:includes("callout-title") then
    element.content = { pandoc.Para({ pandoc.Strong(pandoc.utils.blocks_to_inlines(element.content)) }) }
  end
  return element
end

local function code(element)
  local classes = pandoc.List({})
  for _, class in ipairs(element.classes) do
    if class ~= "cell-code" then classes:insert(class) end
  end
  element.classes = classes
  element.attributes = {}
  return element
end

-- The label of a row goes into its first cell: pandoc looks for labels of links no deeper.
local function table_(element)
  for _, body in ipairs(element.bodies) do
    for _, row in ipairs(body.body) do
      local first = row.cells[1] and row.cells[1].contents[1]
      if row.identifier ~= "" and first then
        first.content:insert(1, pandoc.Span({}, { id = row.identifier }))
        row.identifier = ""
      end
    end
  end
  for i, column in ipairs(element.colspecs) do element.colspecs[i] = { column[1] } end
  element.attributes = {}
  return element
end

return {
  { Span = equation },
  {
    Header = header, Image = image, Div = div, CodeBlock = code, Table = table_,
    Link = function(link)
      link.attributes = {}
      link.classes = pandoc.List({})
      return link
    end,
    Cite = function(cite) return cite.content end,
  },
}
