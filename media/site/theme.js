// Runs before the page is drawn, so that it does not flash in the theme that was not chosen, nor move.
(function (page, script) {
  page.classList.add("js");
  var visit = performance.getEntriesByType("navigation")[0];
  if (location.hash || (visit && visit.type !== "navigate")) page.classList.add("whole"); // see site.css
  try {
    var theme = localStorage.getItem("theme");
    if (theme === "light" || theme === "dark") page.dataset.theme = theme;
  } catch (blocked) { /* without storage the system's preference holds */ }
  if (location.protocol === "file:") return; // from the disk a font cannot be asked for ahead
  // A list of books begins with their titles: without these letters its lines would break anew.
  var faces = "italics" in page.dataset ? ["Regular", "Italic"] : ["Regular"];
  faces.forEach(function (face) {
    var font = document.createElement("link");
    font.rel = "preload";
    font.as = "font";
    font.type = "font/woff2";
    font.crossOrigin = "";
    font.setAttribute("fetchpriority", "low"); // after the style sheet
    font.href = new URL("fonts/Literata-" + face + ".woff2", script.src);
    document.head.append(font);
  });
})(document.documentElement, document.currentScript);
