// Looks at report pages in a browser, as a person would: at the widths of a phone and of a desk, light and dark.
//
//     node check.mjs FOLDER [SHOTS]
//
// FOLDER has pages (*.html), as `cargo run -p duan-page --example made_up FOLDER` writes them; pictures go to SHOTS. Needed are
// Chromium (CHROMIUM names it, else `chromium` of the path) and `npm ci` in this folder. Of each page it checks that
//
// * every figure's text is its value, and that its value is that of the page's data;
// * every point of a chart lies where its axes say, and every chart has a title and a description;
// * nothing is wider than the page, no text is fainter than 4.5 to 1, nothing is loaded, nothing complains;
// * no text from outside became an element (pages whose name begins with `hostile`).
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [folder, shots] = process.argv.slice(2);
if (!folder) {
  console.error("usage: node check.mjs FOLDER [SHOTS]");
  process.exit(2);
}
if (shots) mkdirSync(shots, { recursive: true });

const sizes = [
  { name: "phone", width: 360, height: 740 },
  { name: "desk", width: 1440, height: 900 },
];
const pages = readdirSync(folder).filter((name) => name.endsWith(".html")).sort();
const faults = [];
let checked = { pages: 0, figures: 0, points: 0, texts: 0 };

const executablePath = process.env.CHROMIUM ?? (process.env.PATH ?? "").split(":").map((place) => `${place}/chromium`).find(existsSync);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
if (pages.length === 0) faults.push(`no page in ${folder}`);
for (const name of pages) {
  for (const size of sizes) {
    for (const colorScheme of ["light", "dark"]) {
      await look(name, size, colorScheme);
    }
  }
}
await browser.close();

console.log(`${checked.pages} views: ${checked.figures} figures, ${checked.points} points, ${checked.texts} texts`);
for (const fault of faults) console.error(fault);
process.exit(faults.length > 0 ? 1 : 0);

async function look(name, size, colorScheme) {
  const at = `${name} ${size.name} ${colorScheme}`;
  const context = await browser.newContext({ viewport: { width: size.width, height: size.height }, colorScheme });
  const page = await context.newPage();
  const url = pathToFileURL(resolve(folder, name)).href;
  page.on("request", (request) => {
    if (request.url() !== url && !request.url().startsWith("data:")) faults.push(`${at}: asks for ${request.url()}`);
  });
  page.on("console", (message) => faults.push(`${at}: the console says ${message.text()}`));
  page.on("pageerror", (error) => faults.push(`${at}: ${error}`));
  page.on("dialog", (dialog) => faults.push(`${at}: a dialog says ${dialog.message()}`));
  await page.goto(url);
  if (shots) {
    const file = (part) => join(shots, `${basename(name, ".html")}-${size.name}-${colorScheme}${part}.png`);
    await page.screenshot({ path: file("") });
    await page.screenshot({ path: file("-whole"), fullPage: true });
  }
  // Hidden numbers are numbers too.
  await page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
  const found = await page.evaluate(inspect);
  checked.pages += 1;
  checked.figures += found.figures;
  checked.points += found.points;
  checked.texts += found.texts;
  if (found.figures === 0) found.faults.push("no figure");
  if (found.points === 0) found.faults.push("no point");
  for (const fault of found.faults) faults.push(`${at}: ${fault}`);
  await context.close();
}

// Runs in the page.
function inspect() {
  const faults = [];
  const counts = { figures: 0, points: 0, texts: 0 };
  const data = JSON.parse(document.getElementById("data").textContent);

  const seen = new Set();
  for (const figure of document.querySelectorAll("[data-figure]")) {
    counts.figures += 1;
    const name = figure.dataset.figure;
    seen.add(name);
    const value = Number(figure.dataset.value);
    if (value !== data.figures[name]) faults.push(`${name} is ${value} in the page and ${data.figures[name]} in its data`);
    const text = figure.textContent.trim();
    const shown = Number(text.replace(/[,%\s]/g, ""));
    const wanted = value / Number(figure.dataset.scale);
    const digits = (text.replace("%", "").trim().split(".")[1] ?? "").length;
    const off = Math.abs(shown - wanted);
    if (!(off <= 0.5000001 * 10 ** -digits)) faults.push(`${name}: the text ${text} is not ${wanted}`);
    // Of a whole, hundredths of a per cent are nothing.
    if (!text.includes("%") && wanted !== 0 && off > 0.06 * Math.abs(wanted)) faults.push(`${name}: the text ${text} says little of ${wanted}`);
  }
  for (const name of Object.keys(data.figures)) {
    if (!seen.has(name)) faults.push(`${name} is in the data alone`);
  }
  for (const row of data.bench ?? []) {
    const rate = data.figures[`${row.test}.median_tokens_per_s`];
    if (rate !== undefined && rate !== row.median_ts) faults.push(`${row.test}: ${rate} is not the row's ${row.median_ts}`);
    const chart = document.getElementById(`rounds-${row.test}-tokens-s-title`)?.closest("svg");
    const drawn = chart?.querySelectorAll(".dot").length;
    if (chart && drawn !== row.samples_ts.length) faults.push(`${row.test}: ${drawn} points of ${row.samples_ts.length} rounds`);
  }

  for (const chart of document.querySelectorAll("svg.plot")) {
    const title = chart.querySelector(":scope > title")?.textContent ?? "";
    if (!title || !chart.querySelector(":scope > desc")?.textContent) faults.push(`a chart has no words: ${title}`);
    const box = chart.getBoundingClientRect();
    const { xLow, xHigh, yLow, yHigh } = chart.dataset;
    const part = (value, low, high) => (value - low) / (high - low);
    for (const dot of chart.querySelectorAll(".dot")) {
      counts.points += 1;
      // The shape without its border.
      const shape = dot.getBoundingClientRect();
      const [x, y] = [shape.x + shape.width / 2 - box.x, shape.y + shape.height / 2 - box.y];
      const wantedX = part(Number(dot.dataset.x), Number(xLow), Number(xHigh)) * box.width;
      const wantedY = (1 - part(Number(dot.dataset.y), Number(yLow), Number(yHigh))) * box.height;
      if (Math.abs(x - wantedX) > 1 || Math.abs(y - wantedY) > 1) {
        faults.push(`${title}: a point is at ${x}, ${y} instead of ${wantedX}, ${wantedY}`);
      }
      if (wantedX < -1 || wantedX > box.width + 1 || wantedY < -1 || wantedY > box.height + 1) {
        faults.push(`${title}: a point is outside`);
      }
    }
    for (const curve of chart.querySelectorAll("polyline")) {
      const count = curve.points.numberOfItems;
      if (count !== Number(curve.dataset.points) || count < 1) faults.push(`${title}: a curve has ${count} points`);
    }
    // Names of ticks must not lie on each other.
    const ticks = [...chart.querySelectorAll(".tick")].map((tick) => tick.getBoundingClientRect());
    for (let a = 0; a < ticks.length; a++) {
      for (let b = a + 1; b < ticks.length; b++) {
        const [one, two] = [ticks[a], ticks[b]];
        if (one.left < two.right && two.left < one.right && one.top < two.bottom && two.top < one.bottom) {
          faults.push(`${title}: names of ticks lie on each other`);
          a = ticks.length;
          break;
        }
      }
    }
    for (const text of chart.querySelectorAll("text")) {
      const { left, right } = text.getBoundingClientRect();
      if (left < -0.5 || right > document.documentElement.clientWidth + 0.5) faults.push(`${title}: "${text.textContent}" is cut off`);
    }
  }

  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (wide > 0) {
    const limit = document.documentElement.clientWidth;
    const culprit = [...document.querySelectorAll("main *")].find(
      (element) => element.getBoundingClientRect().right > limit + 1 && !element.closest(".scroll"),
    );
    faults.push(`the page is ${wide} pixels too wide (${culprit?.outerHTML.slice(0, 120)})`);
  }

  // Contrast, by the definition of WCAG 2.
  const rgb = (text) => {
    const numbers = text.match(/[\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
    return numbers.length === 3 ? [...numbers, 1] : numbers;
  };
  const luminance = ([r, g, b]) => {
    const [R, G, B] = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * R + 0.7152 * G + 0.0722 * B;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  const faint = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || element.closest("script, title, desc")) continue;
    counts.texts += 1;
    const style = getComputedStyle(element);
    const [a, b] = [luminance(rgb(element.closest("svg") ? style.fill : style.color)), luminance(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) faint.set(`${element.tagName}.${element.getAttribute("class") ?? ""}`, ratio.toFixed(2));
    const size = parseFloat(style.fontSize);
    if (size < 11.5) faults.push(`"${element.textContent.trim().slice(0, 30)}" has letters of ${size} pixels`);
  }
  for (const [what, ratio] of faint) faults.push(`the contrast of ${what} is ${ratio}`);

  // What comes from outside is text: nothing of it became an element.
  for (const what of ["img", "b:not(.bar > b)", "iframe", "object", "embed", "form", "script:not(#data)", "[onerror]", "[onload]"]) {
    if (document.querySelector(what)) faults.push(`there is an element ${what}`);
  }
  if (document.body.dataset.broken) faults.push("a script ran");
  return { faults, ...counts };
}
