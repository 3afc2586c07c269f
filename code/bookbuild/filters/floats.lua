--[[ Numbered figures, tables and listings, and grids of outputs.

In:  figures, tables, code blocks, divs and cells with a label fig-…, tbl-… or lst-… and a caption
     (on the element, in fig-cap, tbl-cap or lst-cap, or as last paragraph of the div);
     layout-ncol on a div or cell; metadata book-number.
Out: figure#fig-… with "Figure 2.1: …" below it; div#tbl-… and div#lst-… with the caption above; parts
     of a figure with "(a) …"; div.quarto-layout-panel. Labels are added to metadata book-labels.
]]
PANDOC_VERSION:must_be_at_least("3.0")

local stringify = pandoc.utils.stringify
local NAMES = { fig = "Figure", tbl = "Table", lst = "Listing" }
local NBSP = "\u{a0}"

local function kind_of(identifier)
  local kind = identifier:match("^(%a+)%-.")
  return NAMES[kind] and kind or nil
end

local function inlines_of(blocks) return pandoc.utils.blocks_to_inlines(blocks) end

local function parse(text) return inlines_of(pandoc.read(text, "markdown").blocks) end

local function refuse(label, why) error("`" .. label .. "` " .. why, 0) end

-- The alternative text of an image; its caption stands below it, not in `alt`.
local function describe(image)
  local alt = image.attributes["fig-alt"] or ""
  image.attributes["fig-alt"] = nil
  image.caption = alt == "" and pandoc.Inlines({}) or pandoc.Inlines(alt)
  if alt == "" then image.attributes.alt = "" end
  return image
end

local function describe_images(figure) return figure:walk({ Image = describe }) end

-- The image that a paragraph consists of.
local function lone_image(block)
  if block.t ~= "Para" and block.t ~= "Plain" then return nil end
  return #block.content == 1 and block.content[1].t == "Image" and block.content[1] or nil
end

-- Blocks in a grid of `columns`, which becomes narrower where they would not fit.
local function grid(blocks, columns)
  local count = tonumber(columns)
  if not count or count < 1 or count ~= math.floor(count) then
    error("`layout-ncol` must be a whole number, not " .. columns, 0)
  end
  count = math.floor(count)
  local width = ("max(14rem, calc((100%% - %drem) / %d))"):format(count - 1, count)
  local style = "display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, "
    .. width .. "), 1fr));"
  return pandoc.Div(blocks, pandoc.Attr("", { "quarto-layout-panel" },
    { { "data-layout-ncol", tostring(count) }, { "style", style } }))
end

-- Caption above the content. pandoc writes a figure's caption below it, so this one is spelled out.
local function captioned_above(kind, label, caption, content)
  local blocks = pandoc.Blocks({
    pandoc.RawBlock("html", ('<figure class="quarto-float quarto-float-%s figure">\n<figcaption '
      .. 'class="quarto-float-caption quarto-float-caption-top" id="%s-caption">'):format(kind, label)),
    pandoc.Plain(caption),
    pandoc.RawBlock("html", "</figcaption>"),
  })
  blocks:extend(content)
  blocks:insert(pandoc.RawBlock("html", "</figure>"))
  return pandoc.Div(blocks, pandoc.Attr(label))
end

local function floats(doc)
  local chapter = stringify(doc.meta["book-number"] or "")
  local labels = doc.meta["book-labels"] or pandoc.List({})
  local counts = { fig = 0, tbl = 0, lst = 0 }
  local walker

  -- Count a label -> its number.
  local function register(kind, label)
    counts[kind] = counts[kind] + 1
    local number = chapter ~= "" and chapter .. "." .. counts[kind] or tostring(counts[kind])
    labels:insert({ label = label, prefix = NAMES[kind], number = number })
    return number
  end

  local function numbered_caption(kind, number, caption)
    local out = pandoc.Inlines({ pandoc.Str(NAMES[kind] .. NBSP .. number .. ":"), pandoc.Space() })
    out:extend(caption)
    return out
  end

  local function float(kind, label, caption, content, number)
    local full = numbered_caption(kind, number, caption)
    if kind ~= "fig" then return captioned_above(kind, label, full, content) end
    return pandoc.Figure(content, { long = { pandoc.Plain(full) } },
      pandoc.Attr(label, { "quarto-float", "quarto-float-fig", "figure" }))
  end

  local function plain_figure(figure)
    figure = describe_images(figure)
    figure.classes:insert("figure")
    return figure
  end

  local function figure(block)
    local kind = kind_of(block.identifier)
    if not kind then return plain_figure(block), false end
    if kind ~= "fig" then refuse(block.identifier, "labels a figure; its label begins with fig-") end
    local number = register(kind, block.identifier)
    local caption = inlines_of(block.caption.long)
    return float(kind, block.identifier, caption, describe_images(block).content, number), false
  end

  -- A paragraph that is one image: pandoc makes it a figure only when it has a caption.
  local function paragraph(block)
    local image = lone_image(block)
    if not image or #image.caption > 0 then return nil end
    if kind_of(image.identifier) then refuse(image.identifier, "needs a caption") end
    return pandoc.Figure({ pandoc.Plain({ describe(image) }) }, {}, pandoc.Attr("", { "figure" })), false
  end

  local function name_table(tbl, label)
    tbl.caption = { long = {} }
    tbl.identifier = ""
    tbl.attributes["aria-labelledby"] = label .. "-caption"
    return tbl
  end

  local function table_(tbl)
    local label = tbl.identifier
    local kind = kind_of(label)
    if not kind then return nil, false end
    if kind ~= "tbl" then refuse(label, "labels a table; its label begins with tbl-") end
    local caption = inlines_of(tbl.caption.long)
    if #caption == 0 then refuse(label, "needs a caption") end
    return float(kind, label, caption, { name_table(tbl, label) }, register(kind, label)), false
  end

  local function listing(block)
    local label, caption = block.identifier, block.attributes["lst-cap"]
    local kind = kind_of(label)
    if not kind and not caption then return nil, false end
    if kind ~= "lst" or not caption then
      refuse(label ~= "" and label or "lst-cap", "needs a label that begins with lst- and a caption in lst-cap")
    end
    block.identifier = ""
    block.attributes["lst-cap"] = nil
    return float(kind, label, parse(caption), { block }, register(kind, label)), false
  end

  -- The parts of a figure: each figure with a caption gets a letter.
  local function letter_parts(blocks, label, number)
    local parts = 0
    return blocks:walk({
      traverse = "topdown",
      Figure = function(part)
        local caption = inlines_of(part.caption.long)
        if #caption == 0 then return plain_figure(part), false end
        parts = parts + 1
        if parts > 26 then refuse(label, "has more than 26 parts") end
        local letter = string.char(string.byte("a") + parts - 1)
        if part.identifier == "" then part.identifier = label .. "-" .. parts end
        labels:insert({
          label = part.identifier, prefix = NAMES.fig, number = number .. NBSP .. "(" .. letter .. ")",
        })
        caption:insert(1, pandoc.Space())
        caption:insert(1, pandoc.Str("(" .. letter .. ")"))
        part.caption = { long = { pandoc.Plain(caption) } }
        part.classes:insert("quarto-subfloat-fig")
        return plain_figure(part), false
      end,
      Para = paragraph,
    })
  end

  -- The one table of a div, and the caption it brings along.
  local function own_table(blocks, label)
    local tables, caption = 0, pandoc.Inlines({})
    blocks = blocks:walk({
      Table = function(tbl)
        tables = tables + 1
        if tables > 1 then refuse(label, "labels more than one table") end
        caption = inlines_of(tbl.caption.long)
        return name_table(tbl, label)
      end,
    })
    if tables == 0 then refuse(label, "labels no table") end
    return blocks, caption
  end

  local function refuse_labels_inside(blocks, label)
    local function check(block)
      if kind_of(block.identifier) then refuse(block.identifier, "stands inside " .. label .. ", which has a label already") end
    end
    local filter = { Table = check, CodeBlock = check, Div = check }
    if kind_of(label) ~= "fig" then filter.Figure = check end
    blocks:walk(filter)
  end

  -- Blocks of a cell -> its code, its outputs. Other divs have outputs only.
  local function split(div)
    local code, outputs = pandoc.Blocks({}), pandoc.Blocks({})
    for _, block in ipairs(div.content) do
      local is_code = block.t == "CodeBlock" and block.classes:includes("cell-code")
      local into = is_code and code or outputs
      into:insert(block)
    end
    return code, outputs
  end

  local function caption_of(div, kind, outputs)
    local written = div.attributes[kind .. "-cap"]
    div.attributes[kind .. "-cap"] = nil
    if written then return parse(written) end
    local last = outputs[#outputs]
    if last and last.t == "Para" and not lone_image(last) then
      outputs:remove(#outputs)
      return last.content
    end
    return pandoc.Inlines({})
  end

  local function labelled_div(div, kind)
    local label, columns = div.identifier, div.attributes["layout-ncol"]
    local is_cell = div.classes:includes("cell")
    local code, outputs = split(div)
    local caption = caption_of(div, kind, outputs)
    refuse_labels_inside(outputs, label)
    local number = register(kind, label)
    if kind == "fig" then
      outputs = letter_parts(outputs, label, number)
    elseif kind == "tbl" then
      local own
      outputs, own = own_table(outputs, label)
      if #caption == 0 then caption = own end
    end
    if #caption == 0 then refuse(label, "needs a caption") end
    if columns then outputs = pandoc.Blocks({ grid(outputs, columns) }) end
    local result = float(kind, label, caption, outputs, number)
    if not is_cell then return result, false end
    div.attributes["layout-ncol"] = nil
    div.identifier = "cell-" .. label
    code = code:walk(walker)
    code:insert(result)
    div.content = code
    return div, false
  end

  local function div(block)
    local kind = kind_of(block.identifier)
    if kind and not block.classes:includes("cell-output") then return labelled_div(block, kind) end
    if block.attributes["tbl-cap"] then refuse("tbl-cap", "needs a label that begins with tbl-") end
    local columns = block.attributes["layout-ncol"]
    if not columns then return nil end
    local code, outputs = split(block)
    block.attributes["layout-ncol"] = nil
    block.content = code:walk(walker)
    block.content:insert(grid(outputs:walk(walker), columns))
    return block, false
  end

  -- An image in running text, whose description is its alternative text.
  local function inline_image(image)
    if image.attributes["fig-alt"] then return describe(image) end
  end

  walker = {
    traverse = "topdown",
    Image = inline_image,
    Div = div, Figure = figure, Para = paragraph, Table = table_, CodeBlock = listing,
  }
  doc = doc:walk(walker)
  doc.meta["book-labels"] = labels
  return doc
end

return { { Pandoc = floats } }
