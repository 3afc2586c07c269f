--[[ The pages of the book as one document.

In:  a Div .book-page #NAME for each page, with data-href (chapters/masking.html), data-title (the
     label of its title) and the page's blocks; metadata book-site: the site's address or "", and
     book-references: the NAME of the page that lists what all cite, or "".
Out: the pages' blocks after each other. Labels have the page's name before them, NAME--label; links
     between pages lead to labels, those to files of the site to its address, or are plain text.
     A verified number leads to its row among the verified numbers. Only labels that something leads
     to are kept. An error names a link that leads nowhere.
]]
PANDOC_VERSION:must_be_at_least("3.2")

local stringify = pandoc.utils.stringify
local pages, by_href, rows, known, wanted = {}, {}, {}, {}, {}
local site, references = "", ""

local function join_path(folder, path)
  local parts = {}
  for part in (folder .. path):gmatch("[^/]+") do
    if part == ".." then
      parts[#parts] = nil
    elseif part ~= "." then
      parts[#parts + 1] = part
    end
  end
  return table.concat(parts, "/")
end

local function decoded(text)
  return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

local function label(page, anchor)
  if anchor == "" or anchor == page.title then return page.name end
  return page.name .. "--" .. anchor
end

local function is_outside(target) return target:match("^%a[%w+.-]*:") or target:match("^//") end

local function moved_link(page)
  return function(link)
    if is_outside(link.target) then return nil end
    local path, anchor = link.target:match("^([^#]*)#?(.*)$")
    local there = page
    anchor = decoded(anchor)
    if path ~= "" then
      local full = join_path(page.href:match("^(.*/)") or "", decoded(path))
      there = by_href[full]
      if not there then
        if site == "" then return link.content end
        link.target = site .. full
        return link
      end
    elseif anchor:match("^ref%-") and references ~= "" then
      there = pages[references]
    end
    link.target = "#" .. label(there, anchor)
    wanted[link.target:sub(2)] = wanted[link.target:sub(2)] or page.name
    return link
  end
end

local function moved_ids(page)
  local function rename(element)
    if element.identifier == "" or element.identifier == page.name then return nil end
    element.identifier = label(page, element.identifier)
    known[element.identifier] = true
    return element
  end
  return {
    Div = rename, Span = rename, Figure = rename, CodeBlock = rename, Header = rename,
    Image = rename, Link = rename, Code = rename,
    Table = function(element)
      for _, body in ipairs(element.bodies) do
        for _, row in ipairs(body.body) do
          if row.identifier ~= "" then
            local number = row.identifier:match("^number%-(.*)$")
            row.identifier = label(page, row.identifier)
            known[row.identifier] = true
            if number then rows[number] = row.identifier end
          end
        end
      end
      element.identifier = ""
      return element
    end,
  }
end

-- A number with its record behind it. A link inside a link is none: what is inside gives way.
local function linked_claim(span)
  local id = span.attributes["data-claim"] or span.attributes["data-claims"]
  local row = id and rows[id:match("^%S+")]
  span.attributes = {}
  if not row then return span end
  wanted[row] = wanted[row] or row
  return pandoc.Link({ span }, "#" .. row)
end

local function is_claim(span)
  return span.classes:includes("claim") or span.classes:includes("claim-formula")
    or span.classes:includes("worded")
end

local function kept_ids()
  local function keep(element)
    if element.identifier == "" or wanted[element.identifier] then return nil end
    element.identifier = ""
    return element
  end
  return {
    Div = keep, Span = keep, Figure = keep, CodeBlock = keep, Image = keep, Link = keep, Code = keep,
    Header = function(header) return not pages[header.identifier] and keep(header) or nil end,
    Table = function(element)
      for _, body in ipairs(element.bodies) do
        for _, row in ipairs(body.body) do
          if not wanted[row.identifier] then row.identifier = "" end
        end
      end
      return element
    end,
  }
end

local function note_page(div)
  local page = {
    name = div.identifier, href = div.attributes["data-href"], title = div.attributes["data-title"],
  }
  pages[page.name], by_href[page.href] = page, page
  known[page.name] = true
  return page
end

local function join(doc)
  site = stringify(doc.meta["book-site"] or "")
  references = stringify(doc.meta["book-references"] or "")
  for _, div in ipairs(doc.blocks) do note_page(div) end
  local blocks = pandoc.Blocks({})
  for _, div in ipairs(doc.blocks) do
    local page = pages[div.identifier]
    local content = div.content:walk({ Link = moved_link(page) }):walk(moved_ids(page))
    for _, block in ipairs(content) do
      local listed = block.identifier and block.identifier:match("%-%-refs$")
      if not listed or references == "" or references == page.name then blocks:insert(block) end
    end
  end
  blocks = blocks:walk({
    traverse = "topdown",
    Link = function(link) return link, false end,
    Header = function(header) return header, false end,
    Span = function(span)
      if is_claim(span) then return linked_claim(span), false end
    end,
  })
  local missing = {}
  for target, from in pairs(wanted) do
    if not known[target] then missing[#missing + 1] = target .. " (from " .. from .. ")" end
  end
  table.sort(missing)
  if #missing > 0 then error("links lead nowhere: " .. table.concat(missing, ", "), 0) end
  doc.blocks = blocks:walk(kept_ids())
  doc.meta["book-references"], doc.meta["book-site"] = nil, nil
  return doc
end

return { { Pandoc = join } }
