--[[ Panels of tabs.

In:  Div .panel-tabset whose headings of one level begin the tabs.
Out: ul.nav-tabs[role=tablist] and a div.tab-content of div.tab-pane[role=tabpanel]. Every panel is
     in the page; a script decides which one shows, and without it all do.
]]
PANDOC_VERSION:must_be_at_least("3.0")

local tabsets = 0

-- Contents of the div -> list of {title, content}.
local function tabs_of(div)
  local first = div.content[1]
  if not first or first.t ~= "Header" then
    error("`panel-tabset` must begin with a heading, which names its first tab", 0)
  end
  local tabs = {}
  for _, block in ipairs(div.content) do
    if block.t == "Header" and block.level == first.level then
      tabs[#tabs + 1] = { title = block.content, content = pandoc.Blocks({}) }
    else
      tabs[#tabs].content:insert(block)
    end
  end
  return tabs
end

local function tabset(div)
  if not div.classes:includes("panel-tabset") then return nil end
  tabsets = tabsets + 1
  local list, panels = pandoc.Inlines({}), pandoc.Blocks({})
  for i, tab in ipairs(tabs_of(div)) do
    local id = ("tabset-%d-%d"):format(tabsets, i)
    local active = i == 1 and " active" or ""
    list:insert(pandoc.RawInline("html", ('<li class="nav-item" role="presentation"><a class='
      .. '"nav-link%s" id="%s-tab" role="tab" href="#%s" aria-controls="%s" aria-selected="%s">')
      :format(active, id, id, id, tostring(i == 1))))
    list:extend(tab.title)
    list:insert(pandoc.RawInline("html", "</a></li>"))
    panels:insert(pandoc.Div(tab.content, pandoc.Attr(id, i == 1 and { "tab-pane", "active" }
      or { "tab-pane" }, { { "role", "tabpanel" }, { "aria-labelledby", id .. "-tab" } })))
  end
  list:insert(1, pandoc.RawInline("html", '<ul class="nav nav-tabs" role="tablist">'))
  list:insert(pandoc.RawInline("html", "</ul>"))
  div.content = { pandoc.Plain(list), pandoc.Div(panels, { class = "tab-content" }) }
  return div
end

return { { traverse = "topdown", Div = tabset } }
