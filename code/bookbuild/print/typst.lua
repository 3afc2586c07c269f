--[[ The whole book for Typst: what book.typ has a function for, becomes a call of it.

In:  the joined pages, each beginning with Header 1 #NAME that has the attribute number.
Out: the same with raw Typst for callouts, figures, floats, code, equations, claims, references.
]]
PANDOC_VERSION:must_be_at_least("3.2")

local stringify = pandoc.utils.stringify

local function block(text) return pandoc.RawBlock("typst", text) end
local function inline(text) return pandoc.RawInline("typst", text) end

local function label(id) return id and id ~= "" and " <" .. id .. ">" or "" end

-- A Typst text.
local function quoted(text) return '"' .. text:gsub('[\\"]', "\\%0"):gsub("\n", " ") .. '"' end

local function wrapped(call, blocks, id)
  local out = pandoc.Blocks({ block("#" .. call .. "[") })
  out:extend(blocks)
  out:insert(block("]" .. label(id)))
  return out
end

local function wrapped_inline(call, inlines, id)
  local out = pandoc.Inlines({ inline("#" .. call .. "[") })
  out:extend(inlines)
  out:insert(inline("]" .. label(id)))
  return out
end

local function fenced(text, language)
  local longest = 2
  for run in text:gmatch("`+") do longest = math.max(longest, #run) end
  local ticks = ("`"):rep(longest + 1)
  return ticks .. language .. "\n" .. text .. "\n" .. ticks
end

local function code(element)
  local is_cell = element.classes:includes("cell-code")
  local language = element.classes:find_if(function(class) return class ~= "cell-code" end)
  local call = (is_cell or language) and "listing" or "printed"
  return block("#" .. call .. "[\n" .. fenced(element.text, language or "") .. "\n]" .. label(element.identifier))
end

local function image(element)
  local width = element.attributes.width
  local points = width and tonumber((width:gsub("px$", "")))
  return inline(("#picture(%s, alt: %s%s)"):format(quoted(element.src), quoted(stringify(element.caption)),
    points and (", width: %gpt"):format(points * 0.75) or ""))
end

local function figure(element)
  local out = pandoc.Blocks({ block("#book-figure[") })
  out:extend(element.content)
  out:insert(block("]["))
  out:insert(pandoc.Plain(pandoc.utils.blocks_to_inlines(element.caption.long)))
  out:insert(block("]" .. label(element.identifier)))
  return out
end

local function div(element)
  local classes, id = element.classes, element.identifier
  for _, kind in ipairs({ "note", "tip", "warning", "important", "caution" }) do
    if classes:includes("callout-" .. kind) then
      return wrapped('callout("' .. kind .. '")', element.content, id)
    end
  end
  if classes:includes("callout-title") then return wrapped("callout-title", element.content) end
  if classes:includes("caption") then return wrapped("float-caption", element.content) end
  if classes:includes("float") then return wrapped("float-block", element.content, id) end
  if classes:includes("file-name") then return wrapped("file-name", element.content) end
  if classes:includes("csl-entry") then return wrapped("reference", element.content, id) end
  if classes:includes("exercise-check") or classes:includes("explorer") then
    return wrapped("fallback", element.content, id)
  end
  if classes:includes("quarto-layout-panel") then
    local columns = element.attributes["data-layout-ncol"] or "2"
    local out = pandoc.Blocks({ block("#side-by-side(" .. columns .. ")[") })
    for i, part in ipairs(element.content) do
      if i > 1 then out:insert(block("][")) end
      out:insert(part)
    end
    out:insert(block("]"))
    return out
  end
  if id ~= "" then return wrapped("block", element.content, id) end
  return element.content
end

local function span(element)
  local classes, id = element.classes, element.identifier
  if classes:includes("eq-number") then return {} end
  if classes:includes("claim") or classes:includes("claim-formula") or classes:includes("worded") then
    return wrapped_inline("claim", element.content, id)
  end
  if classes:includes("exercise-level") then return wrapped_inline("level", element.content, id) end
  if classes:includes("header-section-number") then
    return wrapped_inline("section-number", element.content, id)
  end
  if id ~= "" then return wrapped_inline("anchored", element.content, id) end
  return element.content
end

-- Before the span of the number is gone.
local function equation(element)
  if not element.classes:includes("equation") then return nil end
  local number = ""
  element:walk({
    Span = function(inner)
      if inner.classes:includes("eq-number") then number = stringify(inner) end
    end,
  })
  return wrapped_inline("numbered(" .. quoted(number) .. ")", element.content, element.identifier)
end

-- pandoc 3.9 knows an older Typst, and writes a name of several letters as so many factors.
local function formula(math)
  local text = pandoc.write(pandoc.Pandoc({ pandoc.Plain({ math }) }), "typst"):gsub("%s+$", "")
  text = text:gsub("dot%.circle", "dot.o"):gsub("#h%(%-1em%)", "#h(-0.1667em)") -- TeX's \\!
  text = text:gsub("upright%((%a [%a ]*%a)%)", function(name) return '"' .. name:gsub(" ", "") .. '"' end)
  text = text:gsub('(%a")%s+\\%(', "%1\\(") -- a space beside a text is one in print
  return inline(text)
end

local function table_(element)
  for _, body in ipairs(element.bodies) do
    for _, row in ipairs(body.body) do
      local first = row.cells[1]
      if row.identifier ~= "" and first and first.contents[1] then
        first.contents[1].content:insert(1, inline("#anchored[]" .. label(row.identifier)))
        row.identifier = ""
      end
    end
  end
  local dense = element.classes:includes("verified-numbers") and "dense" or "tabled"
  if dense == "dense" then -- on paper the statement has room, where the site scrolls
    for i, width in ipairs({ 0.14, 0.29, 0.14, 0.19, 0.07, 0.17 }) do
      if element.colspecs[i] then element.colspecs[i] = { pandoc.AlignLeft, width } end
    end
  end
  element.attr = pandoc.Attr()
  return wrapped(dense, { element })
end

local function header(element)
  local number = element.attributes.number
  if element.level == 1 and number and number ~= "" then
    local word = number:match("%d") and "chapter-number" or "appendix-number"
    element.content:insert(1, inline("#" .. word .. "[" .. number .. "] "))
  end
  element.attributes = {}
  return element
end

return {
  { Span = equation },
  {
    Div = div, Span = span, Figure = figure, CodeBlock = code, Table = table_, Header = header,
    Image = image, Math = formula,
    Cite = function(cite) return cite.content end,
  },
}
