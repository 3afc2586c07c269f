// Runs before the page is drawn, so that it does not flash in the theme that was not chosen, nor move.
(function (page, script) {
  page.classList.add("js");
  var visit = performance.getEntriesByType("navigation")[0];
  if (location.hash || (visit && visit.type !== "navigate")) page.classList.add("whole"); // see site.css
  function kept(storage, key, value) {
    try {
      return value ? window[storage].setItem(key, value) : window[storage].getItem(key);
    } catch (blocked) { /* without storage the system's preference holds */ }
  }
  var theme = kept("localStorage", "theme");
  if (theme === "light" || theme === "dark") page.dataset.theme = theme;
  if (location.protocol === "file:") return; // from the disk fonts come at once, and cannot be asked for ahead
  askAhead();
  if (!kept("sessionStorage", "fonts")) standIn();

  // The first page of a visit is drawn with the font of its text alone; the reader's own fonts stand in
  // for the other five, which would be on their way together with what the page needs to be drawn.
  function standIn() {
    var late;
    function fonts() {
      clearTimeout(late);
      page.classList.replace("stand-in", "drawn");
      kept("sessionStorage", "fonts", "here");
    }
    try {
      new PerformanceObserver(function (paints) {
        if (paints.getEntriesByName("first-contentful-paint").length) fonts();
      }).observe({ type: "paint", buffered: true });
    } catch (unknown) {
      return; // a browser that does not tell when it has drawn
    }
    page.classList.add("stand-in");
    // A tab in the background and a printer draw nothing.
    addEventListener("load", function () { late = setTimeout(fonts, 1000); });
    addEventListener("beforeprint", fonts);
  }

  // A list of books begins with their titles: without these letters its lines would break anew.
  function askAhead() {
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
  }
})(document.documentElement, document.currentScript);
