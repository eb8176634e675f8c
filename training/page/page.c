/* SPDX-License-Identifier: BSD-3-Clause */
/* page.c: the writer of pages. Colours and sizes stand here, once, as a style sheet: figures name classes. */
#include "training/page/page.h"

#include "training/page/chart.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* On a narrow screen a row of a table becomes a card, of which each line begins with its column's head. */
static const char colours[] =
    ":root{--paper:#fff;--ink:#1b1f24;--soft:#59636e;--line:#d3d9e0;--card:#f5f7f9;--mark:#c2303b;"
    "--k0:#2f6db5;--k1:#e08a1e;--k2:#2d9467;--k3:#9a55b8;--k4:#d3505b;--k5:#8d959e;--k6:#59b8c9;"
    "--k7:#b5a332;color-scheme:light dark}"
    "@media(prefers-color-scheme:dark){:root{--paper:#14181c;--ink:#e4e8ec;--soft:#9aa5b0;--line:#39424b;"
    "--card:#1c2227;--mark:#ff7b84;--k0:#6aa5ea;--k1:#f0aa55;--k2:#5cc596;--k3:#c68be0;--k4:#f08790;"
    "--k5:#7d8790;--k6:#7fd6e4;--k7:#d8c867}}";
static const char style[] =
    "*{box-sizing:border-box}body{margin:0 auto;max-width:1560px;padding:16px;background:var(--paper);"
    "color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
    "h1{font-size:24px;line-height:1.25;margin:8px 0}h2{font-size:19px;margin:36px 0 4px;padding-top:12px;"
    "border-top:1px solid var(--line)}p{margin:6px 0;max-width:90ch}"
    "table{border-collapse:collapse;margin:10px 0;font-size:13px;font-variant-numeric:tabular-nums}"
    "th,td{padding:4px 10px;border-bottom:1px solid var(--line);text-align:right;vertical-align:top}"
    "th{color:var(--soft);font-weight:600}.w{text-align:left}td.w{overflow-wrap:anywhere}td:first-child{"
    "white-space:nowrap}"
    ".figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,360px),1fr));gap:14px;"
    "margin:10px 0}figure{margin:0;padding:10px;background:var(--card);border:1px solid var(--line);"
    "border-radius:6px}h3{font-size:14px;margin:0 0 6px}figcaption{font-size:13px;color:var(--soft);"
    "margin-top:6px}svg{display:block;width:100%;max-width:480px;height:auto;margin:0 auto}"
    ".key{display:flex;flex-wrap:wrap;gap:2px 16px;list-style:none;margin:8px 0;padding:0;font-size:13px}"
    ".key i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:6px}";
/* Of drawings. */
static const char marks[] =
    "text{font-size:11px;fill:var(--ink)}.s{fill:var(--soft)}.e{text-anchor:end}.m{text-anchor:middle}"
    ".a{stroke:var(--line);fill:none}.b{fill:var(--paper);stroke:var(--soft)}.h{stroke:var(--mark);"
    "stroke-dasharray:4 3;fill:none}.x{stroke:var(--soft);fill:none}.i{fill:var(--paper)}";
static const char narrow[] =
    "@media(max-width:900px){thead{display:none}table,tbody,tr,td{display:block;width:100%}"
    "tr{padding:8px 10px;margin:8px 0;border:1px solid var(--line);border-radius:6px;"
    "background:var(--card)}td,td.w{display:flex;justify-content:space-between;gap:12px;padding:1px 0;"
    "border:0;text-align:right}td::before{content:attr(data-of);color:var(--soft);text-align:left;"
    "flex:0 0 auto;max-width:55%}td:first-child{font-weight:600;white-space:normal}}";
enum { COLOURS = 8 };

void tr_page_escape(FILE *to, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", to);
            break;
        case '<':
            fputs("&lt;", to);
            break;
        case '>':
            fputs("&gt;", to);
            break;
        case '"':
            fputs("&quot;", to);
            break;
        default: /* of control characters HTML knows none but white space */
            fputc((unsigned char)*text < ' ' && *text != '\n' && *text != '\t' ? '?' : *text, to);
        }
}

/* In a table of Markdown a bar would end the cell; what looks like HTML is no text in either. */
static void say(const struct tr_page *p, const char *text)
{
    if (!p->markdown) {
        tr_page_escape(p->to, text);
        return;
    }
    for (; *text; text++)
        if (*text == '|' || *text == '<')
            fprintf(p->to, *text == '|' ? "\\|" : "&lt;");
        else
            fputc(*text == '\n' ? ' ' : *text, p->to);
}

static void say_formatted(const struct tr_page *p, const char *format, va_list list)
{
    char text[2048];
    vsnprintf(text, sizeof text, format, list);
    say(p, text);
}

static void say_marks(FILE *to)
{
    fputs(marks, to);
    for (int k = 0; k < COLOURS; k++)
        fprintf(to,
            ".k%d{fill:var(--k%d);background:var(--k%d)}.l%d{stroke:var(--k%d);fill:none;"
            "stroke-width:2;background:var(--k%d)}",
            k, k, k, k, k, k);
}

/* Each var(--NAME) is what NAME is in `names`: many programs that draw SVG know no variables. */
static void say_plainly(FILE *to, const char *css, const char *names)
{
    for (const char *at; (at = strstr(css, "var(")) != NULL; css = strchr(at, ')') + 1) {
        char name[16];
        snprintf(name, sizeof name, "%.*s:", (int)strcspn(at + 4, ")"), at + 4);
        const char *value = strstr(names, name) + strlen(name);
        fprintf(to, "%.*s%.*s", (int)(at - css), css, (int)strcspn(value, ";}"), value);
    }
    fputs(css, to);
}

static void say_picture_style(FILE *to)
{
    char *css = NULL;
    size_t size;
    FILE *text = open_memstream(&css, &size);
    if (!text)
        return;
    say_marks(text);
    if (fclose(text) == 0) {
        say_plainly(to, css, colours);
        fputs("@media(prefers-color-scheme:dark){", to);
        say_plainly(to, css, strstr(colours, "dark){"));
        fputs("}", to);
    }
    free(css);
}

void tr_page_picture(FILE *to, double height, const char *title, const char *drawings)
{
    enum { EDGE = 12 };
    fprintf(to,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%g\" viewBox=\"%d %d %d "
        "%g\">\n<title>",
        2 * (TR_CHART_WIDTH + 2 * EDGE), 2 * (height + 2 * EDGE), -EDGE, -EDGE, TR_CHART_WIDTH + 2 * EDGE,
        height + 2 * EDGE);
    tr_page_escape(to, title);
    fputs("</title>\n<style>text{font-family:system-ui,'DejaVu Sans',sans-serif}", to);
    say_picture_style(to);
    fprintf(to,
        "</style>\n<rect class=\"i\" x=\"%d\" y=\"%d\" width=\"100%%\" height=\"100%%\"/>\n%s</svg>\n", -EDGE,
        -EDGE, drawings);
}

void tr_page_begin(struct tr_page *p, FILE *to, bool markdown, const char *title)
{
    *p = (struct tr_page){ .to = to, .markdown = markdown };
    if (markdown) {
        fputs("# ", to);
        say(p, title);
        fputs("\n\n", to);
        return;
    }
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>", to);
    say(p, title);
    fputs("</title>\n<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<style>", to);
    fputs(colours, to);
    fputs(style, to);
    say_marks(to);
    fputs(narrow, to);
    fputs("</style>\n</head>\n<body>\n<h1>", to);
    say(p, title);
    fputs("</h1>\n", to);
}

void tr_page_end(struct tr_page *p)
{
    if (!p->markdown)
        fputs("</body>\n</html>\n", p->to);
}

void tr_page_section(struct tr_page *p, const char *title)
{
    fputs(p->markdown ? "## " : "<h2>", p->to);
    say(p, title);
    fputs(p->markdown ? "\n\n" : "</h2>\n", p->to);
}

void tr_page_say(struct tr_page *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs(p->markdown ? "" : "<p>", p->to);
    say_formatted(p, format, list);
    fputs(p->markdown ? "\n\n" : "</p>\n", p->to);
    va_end(list);
}

/* ---- tables ---- */

void tr_page_head(struct tr_page *p, const char *head, bool left)
{
    if (p->columns == TR_PAGE_COLUMNS)
        return;
    p->heads[p->columns] = head;
    p->left[p->columns++] = left;
}

void tr_page_table(struct tr_page *p)
{
    p->column = 0;
    fputs(p->markdown ? "|" : "<table>\n<thead><tr>", p->to);
    for (int k = 0; k < p->columns; k++) {
        fputs(p->markdown ? " " : p->left[k] ? "<th class=\"w\">" : "<th>", p->to);
        say(p, p->heads[k]);
        fputs(p->markdown ? " |" : "</th>", p->to);
    }
    fputs(p->markdown ? "\n|" : "</tr></thead>\n<tbody>\n", p->to);
    for (int k = 0; p->markdown && k < p->columns; k++)
        fputs(p->left[k] ? "---|" : "--:|", p->to);
    fputs(p->markdown ? "\n" : "", p->to);
}

void tr_page_cell(struct tr_page *p, const char *text, double value)
{
    bool first = p->column == 0, last = p->column + 1 == p->columns;
    fputs(!first ? "" : p->markdown ? "|" : "<tr>", p->to);
    if (p->markdown) {
        fputc(' ', p->to);
        say(p, text);
        fputs(" |", p->to);
    } else {
        fprintf(p->to, "<td%s data-of=\"", p->left[p->column] ? " class=\"w\"" : "");
        tr_page_escape(p->to, p->heads[p->column]);
        if (isfinite(value))
            fprintf(p->to, "\" data-value=\"%.17g", value);
        fputs("\">", p->to);
        say(p, text);
        fputs("</td>", p->to);
    }
    fputs(!last ? "" : p->markdown ? "\n" : "</tr>\n", p->to);
    p->column = last ? 0 : p->column + 1;
}

void tr_page_table_end(struct tr_page *p)
{
    fputs(p->markdown ? "\n" : "</tbody>\n</table>\n", p->to);
    p->columns = 0;
}

/* ---- figures ---- */

void tr_page_key(struct tr_page *p, char kind, const char *const *names, int n)
{
    if (p->markdown)
        return;
    fputs("<ul class=\"key\">", p->to);
    for (int k = 0; k < n; k++) {
        fprintf(p->to, "<li><i class=\"%c%d\"></i>", kind, k % COLOURS);
        say(p, names[k]);
        fputs("</li>", p->to);
    }
    fputs("</ul>\n", p->to);
}

void tr_page_figures(struct tr_page *p)
{
    fputs(p->markdown ? "" : "<div class=\"figures\">\n", p->to);
}

void tr_page_figures_end(struct tr_page *p)
{
    fputs(p->markdown ? "\n" : "</div>\n", p->to);
}

void tr_page_figure(struct tr_page *p, const char *name, const char *title)
{
    fputs(p->markdown ? "- " : "<figure data-name=\"", p->to);
    if (!p->markdown)
        say(p, name);
    fputs(p->markdown ? "" : "\">\n<h3>", p->to);
    say(p, title);
    fputs(p->markdown ? ": " : "</h3>\n", p->to);
}

void tr_page_figure_end(struct tr_page *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs(p->markdown ? "" : "<figcaption>", p->to);
    say_formatted(p, format, list);
    fputs(p->markdown ? "\n" : "</figcaption>\n</figure>\n", p->to);
    va_end(list);
}

/* ---- numbers ---- */

/* Three digits, and the unit in which there is one before the point at least. */
static const char *with_unit(double x, const char *const *units, int n, char text[TR_PAGE_TEXT])
{
    int unit = 0;
    while (unit + 1 < n && fabs(x) >= 999.5)
        x /= 1000, unit++;
    snprintf(text, TR_PAGE_TEXT, "%.*f %s",
        x == floor(x) || x >= 99.95 ? 0
        : x >= 9.995                ? 1
                                    : 2,
        x, units[unit]);
    return text;
}

const char *tr_page_bytes(double bytes, char text[TR_PAGE_TEXT])
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
    return with_unit(bytes, units, 5, text);
}

const char *tr_page_time(double seconds, char text[TR_PAGE_TEXT])
{
    static const char *const units[] = { "ns", "us", "ms", "s" };
    return with_unit(seconds * 1e9, units, 4, text);
}
