// `node play.mjs PROGRAM.mjs BASE_URL API_KEY [BASE_URL API_KEY]...`, as play.py. Run from beside its node_modules.
const [program, ...addresses] = process.argv.slice(2);
const { play } = await import(`./${program}`);
const answers = [];
for (let index = 0; index < addresses.length; index += 2) {
  try {
    answers.push(await play(addresses[index], addresses[index + 1]));
  } catch (error) {
    console.error(error);
    answers.push({ error: `${error.message} ${error.responseBody ?? ""}` });
  }
}
console.log("\n" + JSON.stringify(answers));
