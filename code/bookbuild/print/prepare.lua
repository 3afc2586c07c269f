--[[ What a page does by script or fold, as a book on paper has it. Runs before sections.lua.

In:  callouts, panels of tabs, and all else that pandoc reads in a chapter; as last block a code
     block #book-notes, the JSON of what resolve.lua and copies.lua are to know of the book.
Out: the notes as metadata;
     Div .callout .callout-KIND whose first block is Div .callout-title; tabs one below the other,
     each under its title in bold.
]]
PANDOC_VERSION:must_be_at_least("3.2")

local NAMES = {
  note = "Note", tip = "Tip", warning = "Warning", important = "Important", caution = "Caution",
}

local function kind_of(div)
  for _, class in ipairs(div.classes) do
    local kind = class:match("^callout%-(.+)$")
    if NAMES[kind] then return kind end
  end
end

-- Title of a callout: the attribute, else the first heading, else the kind's name.
local function title_of(div, kind)
  if div.attributes.title then
    return pandoc.utils.blocks_to_inlines(pandoc.read(div.attributes.title, "markdown").blocks)
  end
  local first = div.content[1]
  if first and first.t == "Header" then
    div.content:remove(1)
    return first.content
  end
  return pandoc.Inlines(NAMES[kind])
end

local function callout(div, kind)
  local title = title_of(div, kind)
  div.classes = pandoc.List({ "callout", "callout-" .. kind })
  for _, key in ipairs({ "title", "collapse", "appearance", "icon" }) do div.attributes[key] = nil end
  div.content:insert(1, pandoc.Div({ pandoc.Plain(title) }, { class = "callout-title" }))
  return div
end

local function tabset(div)
  local first, out = div.content[1], pandoc.Blocks({})
  for _, block in ipairs(div.content) do
    if first.t == "Header" and block.t == "Header" and block.level == first.level then
      out:insert(pandoc.Para({ pandoc.Strong(block.content) }))
    else
      out:insert(block)
    end
  end
  div.classes = pandoc.List({ "tabs" })
  div.content = out
  return div
end

-- JSON -> metadata whose texts are texts, in which nothing is Markdown.
local function meta_of(value)
  if type(value) == "string" then return pandoc.MetaString(value) end
  local out = {}
  for key, item in pairs(value) do out[key] = meta_of(item) end
  return #value > 0 and pandoc.MetaList(out) or pandoc.MetaMap(out)
end

local function take_notes(doc)
  local last = doc.blocks[#doc.blocks]
  if not last or last.identifier ~= "book-notes" then
    error("the page ends inside a block that is never closed", 0)
  end
  doc.blocks:remove(#doc.blocks)
  for key, value in pairs(pandoc.json.decode(last.text, false)) do doc.meta[key] = meta_of(value) end
  return doc
end

return {
  { Pandoc = take_notes },
  {
    Div = function(div)
      local kind = kind_of(div)
      if kind then return callout(div, kind) end
      if div.classes:includes("panel-tabset") then return tabset(div) end
    end,
  },
}
