"use strict";
const {trace, extras} = JSON.parse(document.getElementById("data").textContent);
document.getElementById("title").textContent = extras.title || trace.title;
