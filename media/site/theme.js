// Runs before the page is drawn, so that it does not flash in the theme that was not chosen.
(function (page, script) {
  page.classList.add("js");
  try {
    var theme = localStorage.getItem("theme");
    if (theme === "light" || theme === "dark") page.dataset.theme = theme;
  } catch (blocked) { /* without storage the system's preference holds */ }
  if (location.protocol === "file:") return; // from the disk a font cannot be asked for ahead
  var font = document.createElement("link");
  font.rel = "preload";
  font.as = "font";
  font.type = "font/woff2";
  font.crossOrigin = "";
  font.setAttribute("fetchpriority", "low"); // after the style sheet
  font.href = new URL("fonts/Literata-Regular.woff2", script.src);
  document.head.append(font);
})(document.documentElement, document.currentScript);
