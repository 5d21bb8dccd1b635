import { mount } from "svelte";
import App from "./App.svelte";
import { followAddresses } from "./lib/page.svelte";
import "./theme.css";

followAddresses();
mount(App, { target: document.getElementById("page")! });
