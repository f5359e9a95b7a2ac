// Writes what the console knows of the API from ../openapi.json: the types, which git ignores, and
// the options of a session with their bounds.
//   node scripts/gen.mjs           write both
//   node scripts/gen.mjs --check   write the types; fail if the committed options are others
import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const at = (path) => new URL(path, import.meta.url);
const optionsFile = at("../src/api/session-config.json");

async function types(document) {
  const text = astToString(await openapiTS(document, { defaultNonNullable: false }));
  return `// Generated from openapi.json by \`npm run gen\`. Do not edit.\n${text}`;
}

function options({ schemas }) {
  const found = schemas.SessionConfig;
  for (const option of Object.values(found.properties)) {
    const [part] = option.allOf ?? []; // an option with fields of its own
    if (part) option.properties = schemas[part.$ref.split("/").at(-1)].properties;
  }
  return `${JSON.stringify(found, null, 2)}\n`;
}

const document = JSON.parse(await readFile(at("../../openapi.json"), "utf8"));
await writeFile(at("../src/api/schema.ts"), await types(document));
const text = options(document.components);
if (!process.argv.includes("--check")) await writeFile(optionsFile, text);
else if ((await readFile(optionsFile, "utf8")) !== text) {
  console.error(`${optionsFile.pathname} is not current: run npm run gen`);
  process.exitCode = 1;
}
