// One script for both pages: that of users, and that of operators, which is on another listener.

import "../style.css";
import "../ui/ui.css";
import "../console/console.css";
import "./bot.css";
import { operators } from "./operators";
import { users } from "./users";

const host = document.getElementById("bot");
if (host) users(host);
else operators();
