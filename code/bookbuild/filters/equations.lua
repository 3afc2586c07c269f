--[[ Numbers of displayed equations.

In:  $$ … $$ {#eq-label}: a displayed formula and, after it, its label, which pandoc reads as text.
Out: Span #eq-label .equation with the formula and its number, Span .eq-number; the label is added to
     metadata book-labels.
]]
PANDOC_VERSION:must_be_at_least("3.0")

local stringify = pandoc.utils.stringify

local function is_displayed(inline)
  if inline.t == "Span" and inline.classes:includes("claim-formula") then inline = inline.content[1] end
  return inline.t == "Math" and inline.mathtype == "DisplayMath"
end

-- Label and what follows it, when the inline at `at` (after a space perhaps) is one.
local function label_at(inlines, at)
  if inlines[at] and (inlines[at].t == "Space" or inlines[at].t == "SoftBreak") then at = at + 1 end
  if not inlines[at] or inlines[at].t ~= "Str" then return nil end
  local label, rest = inlines[at].text:match("^{#(eq%-[^%s}]+)}(.*)$")
  return label, rest, at
end

local function equations(doc)
  local chapter = stringify(doc.meta["book-number"] or "")
  local labels = doc.meta["book-labels"] or pandoc.List({})
  local count = 0

  local function number(inlines)
    local out, i = pandoc.Inlines({}), 1
    while i <= #inlines do
      local inline = inlines[i]
      local label, rest, last
      if is_displayed(inline) then label, rest, last = label_at(inlines, i + 1) end
      if label then
        count = count + 1
        local value = chapter ~= "" and chapter .. "." .. count or tostring(count)
        labels:insert({ label = label, prefix = "Equation", number = value })
        out:insert(pandoc.Span({
          inline,
          pandoc.Span({ pandoc.Str("(" .. value .. ")") }, { class = "eq-number" }),
        }, pandoc.Attr(label, { "equation" })))
        if rest ~= "" then out:insert(pandoc.Str(rest)) end
        i = last
      else
        if inline.t == "Str" and inline.text:match("{#") then
          error("`" .. inline.text .. "` is a label that belongs to nothing", 0)
        end
        out:insert(inline)
      end
      i = i + 1
    end
    return out
  end

  doc = doc:walk({ traverse = "topdown", Inlines = number })
  doc.meta["book-labels"] = labels
  return doc
end

return { { Pandoc = equations } }
