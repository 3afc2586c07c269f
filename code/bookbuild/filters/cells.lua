--[[ Executed cells, and code blocks with a file name, line numbers or a fold.

In:  Div .cell with its options as attributes (filename, class-output, execution_count, …); code
     blocks with code-fold, code-summary, code-line-numbers, filename; metadata code-fold,
     code-summary, code-line-numbers for the whole page.
Out: the options carried out: details.code-fold, div.code-with-filename, classes on the outputs.
]]
PANDOC_VERSION:must_be_at_least("3.0")

local stringify = pandoc.utils.stringify
local DONE = { "execution_count", "fig-width", "fig-height", "tbl-cap", "filename", "class-output" }

local function escape(text)
  return (text:gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }))
end

local function check(key, value, allowed)
  if not allowed[value] then
    error("`" .. key .. "` cannot be " .. value .. " here", 0)
  end
  return value
end

local function page_option(meta, key, fallback)
  if meta[key] == nil then return fallback end
  return stringify(meta[key])
end

-- Hand the options of a cell down to what they are about.
local function cell(div)
  if div.classes:includes("cell-output") then
    div.attributes.execution_count = nil
    return div
  end
  if not div.classes:includes("cell") then return nil end
  local filename, output_classes = div.attributes.filename, div.attributes["class-output"]
  for _, key in ipairs(DONE) do div.attributes[key] = nil end
  return div:walk({
    CodeBlock = filename and function(block)
      if not block.classes:includes("cell-code") then return nil end
      block.attributes.filename = filename
      return block
    end or nil,
    Div = output_classes and function(output)
      if not output.classes:includes("cell-output") then return nil end
      for class in output_classes:gmatch("%S+") do output.classes:insert(class) end
      return output
    end or nil,
  })
end

local function with_filename(block, filename)
  return pandoc.Div({
    pandoc.RawBlock("html", '<div class="code-with-filename-file"><pre><strong>' .. escape(filename)
      .. "</strong></pre></div>"),
    block,
  }, { class = "code-with-filename" })
end

local function folded(block, fold, summary)
  return {
    pandoc.RawBlock("html", '<details class="code-fold"' .. (fold == "show" and " open" or "")
      .. ">\n<summary>" .. escape(summary) .. "</summary>"),
    block,
    pandoc.RawBlock("html", "</details>"),
  }
end

local function cells(doc)
  local page = {
    fold = page_option(doc.meta, "code-fold", "false"),
    summary = page_option(doc.meta, "code-summary", "Code"),
    lines = page_option(doc.meta, "code-line-numbers", "false"),
  }

  local function take(block, key)
    local value = block.attributes[key]
    block.attributes[key] = nil
    return value
  end

  local function code(block)
    local is_cell = block.classes:includes("cell-code")
    local fold = take(block, "code-fold") or (is_cell and page.fold) or "false"
    local summary = take(block, "code-summary") or page.summary
    local lines = take(block, "code-line-numbers") or page.lines
    local filename = take(block, "filename")
    check("code-fold", fold, { ["true"] = true, ["false"] = true, show = true })
    check("code-line-numbers", lines, { ["true"] = true, ["false"] = true })
    if lines == "true" then block.classes:insert("numberLines") end
    local result = filename and with_filename(block, filename) or block
    if fold == "false" then return result, false end
    return folded(result, fold, summary), false
  end

  return doc:walk({ Div = cell }):walk({ traverse = "topdown", CodeBlock = code })
end

return { { Pandoc = cells } }
