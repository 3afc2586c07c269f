--[[ Links between pages and paths from the project's root.

In:  [text](cells.qmd#sec-cells), ![…](/media/dot.svg); metadata book-root ("../" on a page one folder
     down) and book-new-window.
Out: cells.html#sec-cells, ../media/dot.svg.
]]
PANDOC_VERSION:must_be_at_least("3.0")

local stringify = pandoc.utils.stringify

local function is_external(target) return target:match("^%a[%w+.-]*:") or target:match("^//") end

local function links(doc)
  local root = stringify(doc.meta["book-root"] or "")
  local new_window = stringify(doc.meta["book-new-window"] or "false") == "true"

  local function from_root(target)
    if target:match("^/[^/]") then return root .. target:sub(2) end
    return target
  end

  return doc:walk({
    Link = function(link)
      if is_external(link.target) then
        if new_window and not link.target:match("^mailto:") then
          link.attributes.target = "_blank"
          link.attributes.rel = "noopener"
        end
        return link
      end
      local path, rest = link.target:match("^([^#?]*)(.*)$")
      link.target = from_root((path:gsub("%.qmd$", ".html")) .. rest)
      return link
    end,
    Image = function(image)
      image.src = from_root(image.src)
      return image
    end,
  })
end

return { { Pandoc = links } }
