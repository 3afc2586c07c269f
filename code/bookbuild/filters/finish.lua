--[[ What the other pages need to know of this one. Runs last, after the citations.

In:  the finished document, with the metadata that the filters before left.
Out: the body, without the bibliography unless the page has a div #refs of its own, and after it
     <script type="application/json" id="book-index"> with title, headings, labels, citations.
]]
PANDOC_VERSION:must_be_at_least("3.2")

local stringify = pandoc.utils.stringify

local function html(blocks)
  return (pandoc.write(pandoc.Pandoc(blocks), "html5",
    { html_math_method = "mathml", wrap_text = "none" }):gsub("%s+$", ""))
end

-- The text of a heading for a table of contents: no number, link, note or cross-reference anchor.
local function contents_text(inlines)
  local text = pandoc.Inlines(inlines):walk({
    Note = function() return {} end,
    Link = function(link) return link.content end,
    Span = function(span)
      if span.classes:includes("header-section-number") then return {} end
    end,
    RawInline = function(raw)
      if raw.text:match("^<!%-%-xref%-open") or raw.text:match("^<!%-%-xref%-close") then return {} end
    end,
  })
  while text[1] and text[1].t == "Space" do text:remove(1) end
  return text
end

local function list(meta)
  local found = {}
  for _, item in ipairs(meta or {}) do found[#found + 1] = stringify(item) end
  return found
end

local function headings_of(doc)
  local found = {}
  for _, block in ipairs(doc.blocks) do
    if block.t == "Header" then
      local text = contents_text(block.content)
      found[#found + 1] = {
        id = block.identifier, level = block.level, number = block.attributes.number or "",
        html = html({ pandoc.Plain(text) }), listed = not block.classes:includes("unlisted"),
      }
    end
  end
  return found
end

local function labels_of(doc)
  local found = {}
  for _, entry in ipairs(doc.meta["book-labels"] or {}) do
    found[#found + 1] = {
      label = stringify(entry.label), prefix = stringify(entry.prefix), number = stringify(entry.number),
    }
  end
  return found
end

-- Take the bibliography that citeproc appended out of the body.
local function take_references(doc)
  local last = doc.blocks[#doc.blocks]
  if not last or last.t ~= "Div" or last.identifier ~= "refs" then return "" end
  doc.blocks:remove(#doc.blocks)
  return html({ last })
end

local function finish(doc)
  local own = stringify(doc.meta["book-own-references"] or "false") == "true"
  local title = contents_text(doc.meta.title)
  local index = {
    title = html({ pandoc.Plain(title) }),
    text = stringify(title),
    id = stringify(doc.meta["book-title-id"] or ""),
    description = stringify(doc.meta.description or ""),
    toc = stringify(doc.meta.toc or "true") ~= "false",
    headings = headings_of(doc),
    labels = labels_of(doc),
    citations = list(doc.meta["book-citations"]),
    missing = list(doc.meta["book-missing"]),
    references = own and "" or take_references(doc),
  }
  local json = pandoc.json.encode(index):gsub("<", "\\u003c")
  doc.blocks:insert(pandoc.RawBlock("html",
    '<script type="application/json" id="book-index">' .. json .. "</script>"))
  return doc
end

return { { Pandoc = finish } }
