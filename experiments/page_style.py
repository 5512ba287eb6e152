"""The page's style sheet: one column that a phone can read, light and dark by the reader's setting, tables that scroll sideways."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1d21; --muted: #5c616a; --grid: #e2e4e8; --paper: #ffffff; --alarm: #a33b00;
  --good: #d9efe6; --bad: #f9ddd3; --idle: #eceef1; --own: #d6e8f6; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaee; --muted: #a3a9b3; --grid: #363b44; --paper: #15171b;
  --alarm: #ffab7a; --good: #17412f; --bad: #57291a; --idle: #2a2e35; --own: #173a57; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 4rem; max-width: 56rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .6rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; padding-top: .6rem; border-top: 1px solid var(--grid); }
p, dd, li { max-width: 46rem; }
.answer { font-size: 1.15rem; padding: .8rem 1rem; background: var(--own); border-radius: .5rem; max-width: none; }
.alarm { color: var(--alarm); }
.wide { overflow-x: auto; margin: 1rem 0; }
figure.wide { margin: 1.4rem 0; }
figure svg { display: block; width: 100%; height: auto; min-width: 34rem; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--muted); padding-bottom: .3rem; white-space: nowrap; }
th, td { padding: .25rem .7rem .25rem 0; text-align: left; border-bottom: 1px solid var(--grid); white-space: nowrap; }
thead th, tr:first-child th { vertical-align: bottom; }
summary { cursor: pointer; padding: .4rem 0; }
pre, code { font: .9em/1.5 ui-monospace, monospace; }
pre { padding: .7rem .9rem; background: var(--idle); border-radius: .4rem; white-space: pre-wrap; }
dt { font-weight: 600; margin-top: .6rem; }
dd { margin: 0; }
.rounds { padding-left: 2.2rem; line-height: 2; }
.legend { line-height: 2; }
.t { font: .9em ui-monospace, monospace; padding: .1em .35em; border-radius: .25em; white-space: nowrap; }
.accepted { background: var(--good); }
.rejected { background: var(--bad); }
.thrown { background: var(--idle); color: var(--muted); }
.correction, .bonus { background: var(--own); font-weight: 600; }
"""
