"""The look of the profile page."""

STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#5b6470;--line:#d9dee4;--card:#fff;--page:#f5f6f8;
--bar:#3d6fb4;--bar2:#d9822b;--bad:#b3261e;--warn:#8a5a00;
--s0:#3d6fb4;--s1:#7fa8d9;--s2:#d9822b;--s3:#c9ced6;--s4:#7a5ea8}
@media(prefers-color-scheme:dark){:root{--ink:#e7eaee;--soft:#a3adb9;--line:#39414b;--card:#1d2229;--page:#14181d;
--bar:#78a6e6;--bar2:#f0a860;--bad:#ff8a80;--warn:#f2c14e;
--s0:#78a6e6;--s1:#41648f;--s2:#f0a860;--s3:#4a525d;--s4:#b79be0}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:1040px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:25px;line-height:1.25;margin:0 0 4px}
h2{font-size:18px;margin:34px 0 10px;padding-bottom:4px;border-bottom:1px solid var(--line)}
h3{font-size:14px;margin:0 0 6px;font-weight:600}
p{margin:6px 0}
.sub,.cap{color:var(--soft);font-size:13px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(112px,1fr));gap:10px;margin:18px 0 0;padding:0}
.tiles div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:9px 12px}
.tiles dd{margin:0;font-size:21px;font-weight:600;font-variant-numeric:tabular-nums}
.tiles dt{color:var(--soft);font-size:12px}
.tiles div{display:flex;flex-direction:column-reverse;justify-content:flex-end}
.grid2{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(400px,100%),1fr));gap:14px}
.grid3{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(280px,100%),1fr));gap:14px}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 14px}
figcaption{color:var(--soft);font-size:12.5px;margin-top:6px}
svg{display:block;width:100%;height:auto;margin:0 auto}
svg text{font-size:11px;fill:var(--soft);font-variant-numeric:tabular-nums}
svg .axis{fill:var(--ink);font-size:11.5px}svg .small{font-size:10px}
svg .bar{fill:var(--bar)}svg .bar:hover{opacity:.75}
svg .grid{stroke:var(--line);fill:none;stroke-width:1}
svg .tick{stroke:var(--ink);stroke-width:2}
svg .mark{stroke:var(--bar2);stroke-width:1.6}svg .m1{stroke-dasharray:4 3}
svg .note{fill:var(--ink);stroke:var(--card);stroke-width:3px;paint-order:stroke}
.s0{fill:var(--s0)}.s1{fill:var(--s1)}.s2{fill:var(--s2)}.s3{fill:var(--s3)}.s4{fill:var(--s4)}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:8px}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:6px 12px;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child td{border-bottom:0}
th{font-weight:600;color:var(--soft);font-size:12.5px;white-space:nowrap}
td.n,th.n{text-align:right;white-space:nowrap}
code,pre{font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre{margin:0;padding:12px 14px;overflow:auto;max-height:420px}
.bad{color:var(--bad)}.warn{color:var(--warn)}
ul.notes{margin:14px 0 0;padding:10px 14px 10px 32px;background:var(--card);border:1px solid var(--line);
border-left:4px solid var(--bar2);border-radius:8px}
details{margin-top:10px}details>h3,details>.grid2{margin-top:10px}summary{cursor:pointer;color:var(--soft);font-size:13.5px}
dl.defs{display:grid;grid-template-columns:max-content 1fr;gap:4px 16px;font-size:13.5px}
dl.defs dt{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12.5px}dl.defs dd{margin:0;color:var(--soft)}
@media(max-width:560px){dl.defs{grid-template-columns:1fr}dl.defs dd{margin-bottom:6px}}
@media print{body{background:#fff}.scroll,figure,.tiles div{break-inside:avoid}details[open] pre{max-height:none}}
"""
"""Light and dark by the reader's setting; nothing is loaded from anywhere."""
