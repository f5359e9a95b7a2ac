// Writes what the console knows of the API from ../openapi.json: the types, and the options of a session with their bounds.
//   node scripts/gen.mjs           write
//   node scripts/gen.mjs --check   fail if what is committed is not what would be written
import { readFile, writeFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";

const at = (path) => new URL(path, import.meta.url);
export const typesFile = at("../src/api/schema.ts");
export const optionsFile = at("../src/api/session-config.json");

/**
 * The text of both files for the document at ../openapi.json.
 * @returns {Promise<[URL, string][]>}
 */
export async function generated() {
  const document = JSON.parse(await readFile(at("../../openapi.json"), "utf8"));
  const types = astToString(await openapiTS(document, { defaultNonNullable: false }));
  const { schemas } = document.components;
  const options = schemas.SessionConfig;
  for (const option of Object.values(options.properties)) {
    const [part] = option.allOf ?? []; // an option with fields of its own
    if (part) option.properties = schemas[part.$ref.split("/").at(-1)].properties;
  }
  return [
    [typesFile, `// Generated from openapi.json by \`npm run gen\`. Do not edit.\n${types}`],
    [optionsFile, `${JSON.stringify(options, null, 2)}\n`],
  ];
}

async function main(check) {
  for (const [file, text] of await generated()) {
    if (!check) await writeFile(file, text);
    else if ((await readFile(file, "utf8")) !== text) {
      console.error(`${file.pathname} is not current: run npm run gen`);
      process.exitCode = 1;
    }
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main(process.argv.includes("--check"));
