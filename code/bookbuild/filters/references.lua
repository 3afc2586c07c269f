--[[ Cross references and citations.

In:  @fig-line, [-@fig-line], [Fig. @fig-line], [@fig-a; @tbl-b]; any other @key is a citation.
Out: <!--xref-open LABEL-->…<!--xref-text LABEL-->…<!--xref-close--> for each cross reference, which
     bookbuild replaces by a link once it knows the labels of all pages (xref-number: the number alone);
     metadata book-citations and book-missing: the cited keys, and those without an entry.
]]
PANDOC_VERSION:must_be_at_least("3.0")

local NBSP = "\u{a0}"
local LABELS = { fig = true, tbl = true, lst = true, eq = true, sec = true }

local function raw(text) return pandoc.RawInline("html", text) end

local function is_label(id)
  local kind = id:match("^(%a+)%-.")
  if not kind then return false end
  if not LABELS[kind] and LABELS[kind:lower()] then
    error("`@" .. id .. "` must be written in lower case", 0)
  end
  return LABELS[kind] or false
end

local function reference(citation)
  if #citation.suffix > 0 and citation.mode ~= "AuthorInText" then
    error("`@" .. citation.id .. "` is followed by text inside its brackets; move that out of them", 0)
  end
  local out = pandoc.Inlines({ raw("<!--xref-open " .. citation.id .. "-->") })
  local named = citation.mode ~= "SuppressAuthor" and #citation.prefix == 0
  if #citation.prefix > 0 then
    out:extend(citation.prefix)
    out:insert(pandoc.Str(NBSP))
  end
  out:insert(raw("<!--xref-" .. (named and "text " or "number ") .. citation.id .. "-->"))
  out:insert(raw("<!--xref-close-->"))
  return out
end

local function resolve(cite)
  local labels = cite.citations:filter(function(citation) return is_label(citation.id) end)
  if #labels == 0 then return nil end
  if #labels < #cite.citations then
    error("`@" .. labels[1].id .. "` stands in one bracket with a citation; give each its own", 0)
  end
  local out = pandoc.Inlines({})
  for i, citation in ipairs(cite.citations) do
    if i > 1 then out:extend({ pandoc.Str(","), pandoc.Space() }) end
    out:extend(reference(citation))
    if citation.mode == "AuthorInText" and #citation.suffix > 0 then
      out:extend({ pandoc.Space(), pandoc.Str("[") })
      out:extend(citation.suffix)
      out:insert(pandoc.Str("]"))
    end
  end
  return out
end

local function references(doc)
  doc = doc:walk({ Cite = resolve })
  local known, cited, missing, seen = {}, pandoc.List({}), pandoc.List({}), {}
  for _, entry in ipairs(pandoc.utils.references(doc)) do known[entry.id] = true end
  doc.blocks:walk({
    Cite = function(cite)
      for _, citation in ipairs(cite.citations) do
        if not seen[citation.id] then
          seen[citation.id] = true
          cited:insert(citation.id)
          if not known[citation.id] then missing:insert(citation.id) end
        end
      end
    end,
  })
  doc.meta["book-citations"] = cited
  doc.meta["book-missing"] = missing
  return doc
end

return { { Pandoc = references } }
