// The person, with Chromium: person.mjs CHROMIUM ADDRESS KEY SCOPE...
// Signs in with the key, leaves only the scopes ticked that are named (all, when none is), and allows. Prints what the
// browser showed at the end.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [executablePath, address, key, ...scopes] = process.argv.slice(2);
const home = mkdtempSync(join(tmpdir(), "person-"));
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync"];
const context = await chromium.launchPersistentContext(home, { executablePath, args, javaScriptEnabled: false });
try {
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  await page.goto(address);
  await page.getByLabel("An API key of your account").fill(key);
  await page.getByRole("button", { name: "Continue" }).click();
  for (const box of scopes.length ? await page.locator("input[name=scope]").all() : []) {
    if (!scopes.includes(await box.getAttribute("value"))) await box.uncheck();
  }
  await page.getByRole("button", { name: "Allow" }).click();
  await page.waitForLoadState();
  console.log(page.url().split("?")[0], await page.locator("body").innerText());
} finally {
  await context.close();
  rmSync(home, { recursive: true, force: true });
}
