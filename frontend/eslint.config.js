// Lint rules, and the two rules of structure: features do not import each other, and files stay short.
import js from "@eslint/js";
import reactHooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

const features = [
  "account",
  "alerts",
  "audit",
  "capacity",
  "keys",
  "manual",
  "members",
  "palette",
  "playground",
  "sessions",
  "usage",
  "webhooks",
];

const featureRules = features.map((name) => ({
  files: [`src/features/${name}/**`],
  rules: {
    "no-restricted-imports": [
      "error",
      {
        patterns: features
          .filter((other) => other !== name)
          .map((other) => ({
            group: [`../${other}/**`, `**/features/${other}/**`],
            message: "Features do not import each other.",
          })),
      },
    ],
  },
}));

const lowerLayers = {
  files: ["src/api/**", "src/live/**", "src/ui/**"],
  rules: {
    "no-restricted-imports": [
      "error",
      { patterns: [{ group: ["**/features/**"], message: "Nothing below imports a feature." }] },
    ],
  },
};

// Names and texts of people and models have symbols for what would act: the part that shows them so is the only way.
const userTexts = {
  files: ["src/**/*.tsx"],
  ignores: ["src/ui/plain-text.tsx"],
  rules: {
    "no-restricted-syntax": [
      "error",
      { selector: "JSXOpeningElement[name.name='bdi']", message: "Use UserText." },
    ],
  },
};

export default tseslint.config(
  { ignores: ["dist", "src/api/schema.ts"] },
  js.configs.recommended,
  tseslint.configs.strict,
  reactHooks.configs.flat.recommended,
  {
    languageOptions: { globals: { console: "readonly", process: "readonly", URL: "readonly" } },
    rules: { "max-lines": ["error", 300] },
  },
  { files: ["src/**/*.test.*"], rules: { "max-lines": ["error", 600] } },
  lowerLayers,
  userTexts,
  ...featureRules,
);
