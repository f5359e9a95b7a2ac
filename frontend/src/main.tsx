// Starts the console in the page.
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { allowForeignText } from "./ui/foreign-text";
import { watchTheme } from "./ui/theme";
import "./styles.css";

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");
allowForeignText(document);
watchTheme();
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
