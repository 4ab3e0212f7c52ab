/* The search of the site, in the page itself: pages that are opened from disk may start no worker
   and read no file, but they may have scripts, and the index is one (see site_search.py). */
document.addEventListener("DOMContentLoaded", function () {
  "use strict";
  var box = document.getElementById("mkdocs-search-query");
  var found = document.getElementById("mkdocs-search-results");
  if (!box || !found) return;
  var asked = false;
  var index = null;
  var places = {};

  function from(name) {
    return base_url.replace(/\/$/, "") + "/" + name;
  }

  function load(name, then) {
    var script = document.createElement("script");
    script.src = from("search/" + name);
    script.onload = then;
    document.head.appendChild(script);
  }

  function prepare() {
    if (asked) return;
    asked = true;
    load("lunr.js", function () {
      load("search_index.js", function () {
        var data = window.search_index;
        if (data.config.separator) lunr.tokenizer.separator = new RegExp(data.config.separator);
        index = lunr(function () {
          this.field("title");
          this.field("text");
          this.ref("location");
          for (var doc of data.docs) {
            this.add(doc);
            places[doc.location] = doc;
          }
        });
        show();
      });
    });
  }

  function matches(words) {
    try {
      return index.search(words);
    } catch (error) { // what was typed is no query of the index
      return index.search(words.replace(/[^\p{L}\p{N}\s]+/gu, " "));
    }
  }

  function entry(place) {
    var article = document.createElement("article");
    var link = article.appendChild(document.createElement("h3")).appendChild(
      document.createElement("a")
    );
    link.href = from(place.location);
    link.textContent = place.title;
    article.appendChild(document.createElement("p")).textContent = place.text.substring(0, 200);
    return article;
  }

  function show() {
    var words = box.value.trim();
    if (!index || words.length < 3) {
      found.replaceChildren();
      return;
    }
    var list = matches(words).map(function (x) { return entry(places[x.ref]); });
    if (!list.length) {
      list = [document.createElement("p")];
      list[0].textContent = found.getAttribute("data-no-results-text") || "No results found";
    }
    found.replaceChildren.apply(found, list);
  }

  box.addEventListener("focus", prepare);
  box.addEventListener("input", function () { prepare(); show(); });
  var term = new URLSearchParams(window.location.search).get("q");
  if (term) {
    box.value = term;
    prepare();
  }
});
