// Opens pages in a browser and prints what it saw, one JSON object a line. It judges nothing.
//
//     node look.mjs BROWSER MODULES PICTURES|- PAGE.html…
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [browserPath, modules, pictures, ...pages] = process.argv.slice(2);
const require = createRequire(path.join(modules, "x.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

// The narrowest phone, the one that the page is made for, and a desk.
const SIZES = [
  { name: "small", width: 320, height: 640 },
  { name: "phone", width: 390, height: 844 },
  { name: "desk", width: 1280, height: 900 },
];

const say = (line) => console.log(JSON.stringify(line));
const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
for (const page of pages)
  for (const scheme of ["light", "dark"]) for (const size of SIZES) await look(page, scheme, size);
await browser.close();

/** One look at one page: at rest, then with every row unfolded. */
async function look(file, scheme, size) {
  const url = pathToFileURL(path.resolve(file)).href;
  const context = await browser.newContext({ viewport: size, colorScheme: scheme, deviceScaleFactor: 2 });
  const page = await context.newPage();
  const seen = { kind: "look", page: path.basename(file), scheme, size: size.name, console: [], requests: [] };
  page.on("console", (message) => seen.console.push(`${message.type()}: ${message.text()}`.slice(0, 500)));
  page.on("pageerror", (error) => seen.console.push(`error: ${error.message}`.slice(0, 500)));
  page.on("dialog", (dialog) => {
    seen.console.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  context.on("request", (request) => {
    const asked = request.url();
    if (asked !== url && !asked.startsWith("data:")) seen.requests.push(asked.slice(0, 500));
  });
  await page.goto(url, { waitUntil: "load" });
  seen.folded = await measure(page);
  await picture(page, seen, "folded");
  await page.evaluate(() => document.querySelectorAll("details").forEach((row) => (row.open = true)));
  seen.unfolded = await measure(page);
  await picture(page, seen, "unfolded");
  seen.axe = await accessibility(page);
  say(seen);
  await context.close();
}

/** How wide the page is, which elements make it wider than the screen, and what of it works. */
function measure(page) {
  return page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    const scrolls = (element) => element && (/auto|scroll/.test(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
    const over = [...document.body.querySelectorAll("*")].filter((element) => {
      const box = element.getBoundingClientRect();
      return box.width > 0 && box.right > width + 1 && !scrolls(element);
    });
    return {
      width,
      scrollWidth: document.documentElement.scrollWidth,
      over: over.slice(0, 5).map((element) => element.outerHTML.slice(0, 120)),
      turns: document.querySelectorAll("main > section.turn").length,
      broken: [...document.images].filter((image) => image.complete && image.naturalWidth === 0).length,
      active: document.querySelectorAll("script, iframe, object, embed, form, base, link, audio, video").length,
    };
  });
}

/** What axe finds wrong, in its own words. */
async function accessibility(page) {
  // A whole session in one window scrolls, and axe looks at what is there: a tall window makes no difference.
  await page.evaluate(axe);
  const result = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return result.violations.map((wrong) => {
    const where = wrong.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} (${node.failureSummary})`);
    return `${wrong.id}: ${wrong.help}: ${where.join("; ")}`;
  });
}

async function picture(page, seen, state) {
  if (pictures === "-") return;
  const name = `${seen.page.replace(/\.html$/, "")}-${seen.size}-${seen.scheme}-${state}.png`;
  await page.screenshot({ path: path.join(pictures, name), fullPage: true });
}
