--[[ The title of a page and the numbers of its sections.

In:  front matter with a title, or one `# Title {#id}` as first block; metadata book-number ("2",
     "A", or "" on a page without a number) and book-number-depth.
Out: metadata title and book-title-id; the heading of the title is gone from the body; each numbered
     heading begins with Span .header-section-number and has the attribute number.
]]
PANDOC_VERSION:must_be_at_least("3.0")

local stringify = pandoc.utils.stringify

local function quoted(header) return "`" .. stringify(header.content) .. "`" end

-- Move the title out of the blocks into the metadata.
local function take_title(doc)
  local first = doc.blocks[1]
  local heading = first and first.t == "Header" and first.level == 1 and first or nil
  if heading and doc.meta.title then
    error(quoted(heading) .. " is a second title beside the one in the front matter", 0)
  end
  if heading then
    doc.meta.title = pandoc.MetaInlines(heading.content)
    doc.meta["book-title-id"] = heading.identifier
    doc.blocks:remove(1)
  end
  if not doc.meta.title or stringify(doc.meta.title) == "" then
    error("the page has no title; give it one in its front matter", 0)
  end
end

local function is_numbered(header) return not header.classes:includes("unnumbered") end

local function refuse_nested(block)
  block:walk({
    Header = function(header)
      if is_numbered(header) then
        error(quoted(header) .. " is a heading inside another block; move it out, or mark it "
          .. "{.unnumbered}", 0)
      end
    end,
  })
end

local function number_sections(doc)
  local chapter = stringify(doc.meta["book-number"] or "")
  local depth = tonumber(stringify(doc.meta["book-number-depth"] or "6"))
  local counts, last = {}, 1
  for _, block in ipairs(doc.blocks) do
    if block.t ~= "Header" then
      refuse_nested(block)
    else
      if block.level == 1 then
        error(quoted(block) .. " is a heading of level 1, which is for the title alone", 0)
      end
      if block.level > last + 1 then
        error(quoted(block) .. " is a heading that skips a level", 0)
      end
      last = block.level
      if chapter ~= "" and is_numbered(block) and block.level <= depth then
        counts[block.level] = (counts[block.level] or 0) + 1
        for deeper = block.level + 1, 6 do counts[deeper] = nil end
        local number = chapter
        for level = 2, block.level do number = number .. "." .. (counts[level] or 0) end
        block.attributes.number = number
        block.content:insert(1, pandoc.Space())
        block.content:insert(1, pandoc.Span({ pandoc.Str(number) }, { class = "header-section-number" }))
      end
    end
  end
end

local function sections(doc)
  take_title(doc)
  number_sections(doc)
  return doc
end

return { { Pandoc = sections } }
