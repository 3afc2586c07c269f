--[[ Tables that scroll inside themselves.

In:  any table.
Out: Div .table-responsive around it, which the keyboard can reach and scroll.
]]
PANDOC_VERSION:must_be_at_least("3.0")

local function scrolling(tbl)
  tbl.classes:extend({ "caption-top", "table" })
  local attr = pandoc.Attr("", { "table-responsive" }, { { "tabindex", "0" } })
  local name = tbl.attributes["aria-labelledby"]
  if name then
    attr.attributes.role = "region"
    attr.attributes["aria-labelledby"] = name
  end
  return pandoc.Div({ tbl }, attr)
end

return { { Table = scrolling } }
