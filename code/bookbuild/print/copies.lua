--[[ A page as plain Markdown, and as the cells of a notebook. Runs after resolve.lua.

In:  the resolved page; metadata book-cells: the labels of its cells; book-cited: the keys it cites;
     book-base: the address of the page's folder, or "" where it has none; book-heading: the title.
Out: the same page, with metadata copy-markdown: the page as one text, and copy-cells: JSON of
     [{type: "markdown", source} | {type: "code", label, outputs: [{kind, text | src}]}].
     In the text links lead as the page's own do; in cells they begin with the base, or are plain.
]]
PANDOC_VERSION:must_be_at_least("3.2")

local stringify = pandoc.utils.stringify
local FORMAT = "gfm+tex_math_dollars-tex_math_gfm-task_lists"
local labels, cited, base = {}, {}, ""

local function write(blocks)
  local options = pandoc.WriterOptions({ wrap_text = "none" })
  return (pandoc.write(pandoc.Pandoc(blocks), FORMAT, options):gsub("%s+$", ""))
end

-- Links: `page` leaves them as they are, `cells` makes them lead out of the notebook, or plain text.
local function is_outside(target) return target:match("^%a[%w+.-]*:") ~= nil end

local function link_in_page(link)
  link.attr = pandoc.Attr()
  if link.target:match("^#ref%-") then return link.content end
  return link
end

local function link_in_cells(page)
  return function(link)
    link.attr = pandoc.Attr()
    if link.target:match("^#ref%-") then return link.content end
    if is_outside(link.target) then return link end
    if base == "" then return link.content end
    link.target = base .. (link.target:match("^#") and page .. link.target or link.target)
    return link
  end
end

-- A displayed formula with its number, as KaTeX and MathJax know it.
local function equation(span)
  local math, number
  span:walk({
    Math = function(found) math = found end,
    Span = function(inner)
      if inner.classes:includes("eq-number") then number = stringify(inner):match("%((.*)%)") end
    end,
  })
  math.text = math.text:gsub("%s+$", "") .. " \\tag{" .. number .. "}"
  return math
end

local EQUATIONS = {
  traverse = "topdown", -- before the span of the number is gone
  Span = function(span)
    if span.classes:includes("equation") then return equation(span), false end
  end,
}

local function figure(element)
  local out = pandoc.Blocks({})
  element.content:walk({
    Image = function(image) out:insert(pandoc.Para({ pandoc.Image(image.caption, image.src) })) end,
  })
  local caption = pandoc.utils.blocks_to_inlines(element.caption.long)
  if #caption > 0 then out:insert(pandoc.Para({ pandoc.Emph(caption) })) end
  return out
end

local function is_cited(entry)
  local key = entry.identifier and entry.identifier:match("^ref%-(.*)$")
  return key and (cited["*"] or cited[key])
end

local function references(div)
  local items = pandoc.List({})
  for _, entry in ipairs(div.content) do
    if is_cited(entry) then items:insert(entry.content) end
  end
  return #items > 0 and pandoc.Blocks({ pandoc.BulletList(items) }) or pandoc.Blocks({})
end

local function quoted(div)
  local title = div.content[1].content -- the walk has been to the title's own div before
  local blocks = pandoc.Blocks({ pandoc.Para({ pandoc.Strong(title) }) })
  for i = 2, #div.content do blocks:insert(div.content[i]) end
  return pandoc.BlockQuote(blocks)
end

local function div(element)
  if element.classes:includes("callout") then return quoted(element) end
  if element.classes:includes("caption") then
    return pandoc.Para({ pandoc.Emph(pandoc.utils.blocks_to_inlines(element.content)) })
  end
  return element.content
end

-- A table that fits into one line a row, which is all that Markdown of this kind has.
local function one_line(tbl)
  tbl.attr = pandoc.Attr()
  for i, column in ipairs(tbl.colspecs) do tbl.colspecs[i] = { column[1] } end
  return tbl:walk({ LineBreak = function() return { pandoc.Str(" ") } end })
end

local function definitions(list)
  local out = pandoc.Blocks({})
  for _, item in ipairs(list.content) do
    out:insert(pandoc.Para({ pandoc.Strong(item[1]) }))
    for _, definition in ipairs(item[2]) do out:extend(definition) end
  end
  return out
end

local function plain(blocks, link)
  return pandoc.Blocks(blocks)
    :walk({ Figure = figure, Table = one_line, DefinitionList = definitions })
    :walk({ Div = div })
    :walk(EQUATIONS)
    :walk({
      Span = function(span)
        if span.classes:includes("exercise-level") then
          span.content:insert(pandoc.Str("."))
          return { pandoc.Strong(span.content) }
        end
        return span.content
      end,
      Cite = function(cite) return cite.content end,
      Note = function(note)
        local text = pandoc.utils.blocks_to_inlines(note.content)
        text:insert(1, pandoc.Str(" ("))
        text:insert(pandoc.Str(")"))
        return text
      end,
      Code = function(code) return pandoc.Code(code.text) end,
      CodeBlock = function(block)
        local language = block.classes:find_if(function(class) return class ~= "cell-code" end)
        return pandoc.CodeBlock(block.text, pandoc.Attr("", language and { language } or {}))
      end,
      Header = function(header)
        header.attr = pandoc.Attr()
        return header
      end,
      RawBlock = function() return {} end,
    })
    :walk({ Link = link })
end

-- The notebook. --

local function label_of(cell)
  local id = cell.identifier
  return labels[id] and id or id:gsub("^cell%-", "")
end

local function is_cell(block) return block.t == "Div" and block.classes:includes("cell") end

local function has_cell(block)
  local found = false
  if block.t == "Div" then
    block:walk({ Div = function(inner) found = found or is_cell(inner) end })
  end
  return found
end

local function first_code(blocks)
  local text
  pandoc.Blocks(blocks):walk({ CodeBlock = function(block) text = text or block.text end })
  return text
end

-- What a cell shows, in order, and the captions that belong below it.
local function outputs_of(cell, link)
  local outputs, captions = {}, pandoc.Blocks({})

  local function images(block)
    local found = 0
    block:walk({
      traverse = "topdown",
      Image = function(image)
        found = found + 1
        outputs[#outputs + 1] = { kind = "image", src = image.src, text = stringify(image.caption) }
      end,
    })
    return found
  end

  local function caption(inlines)
    if #inlines > 0 then captions:insert(pandoc.Para({ pandoc.Emph(inlines) })) end
  end

  local function visit(block)
    local classes = block.classes
    if block.t == "Figure" then
      for _, inner in ipairs(block.content) do visit(inner) end
      caption(pandoc.utils.blocks_to_inlines(block.caption.long))
    elseif block.t == "Div" and classes:includes("caption") then
      caption(pandoc.utils.blocks_to_inlines(block.content))
    elseif block.t == "Div" and not classes:includes("cell-output") then
      for _, inner in ipairs(block.content) do visit(inner) end
    elseif block.t == "Div" then
      local text = first_code(block.content)
      if classes:includes("cell-output-stdout") or classes:includes("cell-output-stderr") then
        local kind = classes:includes("cell-output-stdout") and "stdout" or "stderr"
        outputs[#outputs + 1] = { kind = kind, text = text }
      elseif classes:includes("cell-output-error") then
        outputs[#outputs + 1] = { kind = "error", text = text }
      elseif images(block) > 0 then
        block:walk({
          Figure = function(part) caption(pandoc.utils.blocks_to_inlines(part.caption.long)) end,
        })
      elseif classes:includes("cell-output-markdown") then
        outputs[#outputs + 1] = { kind = "markdown", text = write(plain(block.content, link)) }
      else
        outputs[#outputs + 1] = { kind = "text", text = text or stringify(block) }
      end
    elseif block.t == "Para" or block.t == "Plain" then
      images(block)
    end
  end

  for _, block in ipairs(cell.content) do visit(block) end
  return outputs, captions
end

local function cells_of(blocks, link)
  local cells, prose = {}, pandoc.Blocks({})

  local function flush(quote)
    if #prose == 0 then return end
    local body = plain(prose, link)
    prose = pandoc.Blocks({})
    if #body == 0 then return end
    local source = write(quote and pandoc.Blocks({ pandoc.BlockQuote(body) }) or body)
    if source ~= "" then cells[#cells + 1] = { type = "markdown", source = source } end
  end

  local function visit(list, quote)
    for _, block in ipairs(list) do
      if is_cell(block) then
        flush(quote)
        local outputs, captions = outputs_of(block, link)
        cells[#cells + 1] = { type = "code", label = label_of(block), outputs = outputs }
        prose:extend(captions)
        if #captions > 0 then flush(quote) end
      elseif has_cell(block) then
        local callout = block.classes:includes("callout")
        local inside = pandoc.Blocks(block.content):clone()
        if callout then
          flush(quote)
          local title = pandoc.utils.blocks_to_inlines(block.content[1].content)
          prose:insert(pandoc.Para({ pandoc.Strong(title) }))
          inside:remove(1)
        end
        visit(inside, quote or callout)
        if callout then flush(true) end
      else
        if block.t == "Header" then flush(quote) end
        prose:insert(block)
      end
    end
  end

  visit(blocks, false)
  flush(false)
  return cells
end

local function set(list)
  local found = {}
  for _, item in ipairs(list or {}) do found[stringify(item)] = true end
  return found
end

local function copies(doc)
  labels, cited = set(doc.meta["book-cells"]), set(doc.meta["book-cited"])
  base = stringify(doc.meta["book-base"] or "")
  local page = stringify(doc.meta["book-page"] or "")
  local heading = pandoc.Inlines(stringify(doc.meta["book-heading"]))
  local blocks = pandoc.Blocks({ pandoc.Header(1, heading) })
  for _, block in ipairs(doc.blocks) do
    local own = stringify(doc.meta["book-own-references"]) == "true"
    if block.identifier == "refs" then
      local listed = references(block)
      if #listed > 0 and not own then blocks:insert(pandoc.Header(2, "References")) end
      blocks:extend(listed)
    else
      blocks:insert(block)
    end
  end
  doc.meta["copy-markdown"] = pandoc.MetaString(write(plain(blocks, link_in_page)))
  doc.meta["copy-cells"] = pandoc.MetaString(pandoc.json.encode(cells_of(blocks, link_in_cells(page))))
  return doc
end

return { { Pandoc = copies } }
