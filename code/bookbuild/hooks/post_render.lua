--[[ Quarto's `post-render`: runs post_render.py beside it. Needs no Python; see python.lua. ]]
local here = pandoc.path.directory(PANDOC_SCRIPT_FILE)
dofile(pandoc.path.join({ here, "python.lua" }))("post_render.py")
