// Instants and durations as text. Instants are milliseconds since the first moment of the log; texts are in UTC.

const pad = (number, digits = 2) => String(number).padStart(digits, "0");

/** Such as 38 ms, 1.4 s, 2 min 05 s, 1 h 02 min, 3 d 04 h, as in the command line. */
function lengthOf(ms) {
  const seconds = ms / 1000;
  if (seconds < 0.9995) return `${Math.round(ms)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${pad(whole % 60)} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${pad(Math.floor((whole % 3600) / 60))} min`;
  return `${Math.floor(whole / 86400)} d ${pad(Math.floor((whole % 86400) / 3600))} h`;
}

/** Such as 02:11:05.761; fewer digits for a step that needs none. */
function timeOfDay(epoch, step = 1) {
  const text = new Date(epoch).toISOString();
  return text.slice(11, step < 1000 ? 23 : step < 60000 ? 19 : 16);
}

/** Such as 2026-11-21. */
const dayOf = (epoch) => new Date(epoch).toISOString().slice(0, 10);

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5,
  216e5, 432e5, 864e5, 1728e5, 6048e5, 2592e6, 7776e6, 31536e6];

/** The smallest round step of at least `least` milliseconds. */
const stepOf = (least) => STEPS.find((step) => step >= least) ?? STEPS[STEPS.length - 1];
