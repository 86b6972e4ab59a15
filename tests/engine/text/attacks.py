"""Templates that a hostile model file could carry: each wants time, memory, secrets or changes.

Run as a program, it renders them all with a short deadline and prints the peak growth of memory in MB.
"""

from __future__ import annotations

_IFS = "{% if 1 %}a{% endif %}"
_COMPARED = "{% set x = ['a'] * 9999 %}{% set y = ['a'] * 9999 %}"
_DAG = "{% set n = namespace(x=START) %}{% for i in range(60) %}{% set n.x = STEP %}{% endfor %}"


def _dag(start: str, step: str, use: str = "{{ n.x }}") -> str:
    """A value that holds the one before twice: small here, endless once it is printed, hashed or compared."""
    return _DAG.replace("START", start).replace("STEP", step) + use


def _nested(inner: str) -> str:
    return "{% for i in range(99999) %}{% for j in range(99999) %}" + inner + "{% endfor %}{% endfor %}"


def _often(inner: str, before: str = "") -> str:
    return before + "{% for i in range(99999) %}" + inner + "{% endfor %}"


def _colliding_numbers(count: int) -> str:
    """Numbers of one and the same hash: multiples of the prime by which Python takes the hash of an int."""
    return "[" + ", ".join(str(number * ((1 << 61) - 1)) for number in range(1, count)) + "]"


TIME = {
    "colliding keys": "{{ dict.fromkeys(" + _colliding_numbers(4000) + " * 49)|length }}",
    "colliding pairs": "{% set x = " + _colliding_numbers(4000) + " %}{{ dict((x * 9)|batch(2))|length }}",
    "colliding items": "{{ (" + _colliding_numbers(4000) + " * 49)|unique|list|length }}",
    "a long attribute": "{{ range(99999)|map(attribute='a' ~ '.a' * 1000000, default={})|list }}",
    "a long sort attribute": "{{ ([{'a': {}}] * 9999)|map(attribute='a.' * 99999, default={})|sort|list }}",
    "range": "{% for i in range(200000) %}{% endfor %}",
    "nested loops": _nested(""),
    "a loop's condition": _often("{% for j in range(99999) if false %}{% endfor %}"),
    "a long condition": _often("{% for j in range(99999) if j == i and 'a' in 'b' %}{% endfor %}"),
    "macro recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "macro tree": "{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(40) }}",
    "loop recursion": "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    "loop tree": "{% for i in [1, 2] recursive %}{{ loop([1, 2]) if loop.depth < 40 }}{% endfor %}",
    "block recursion": "{% block a %}{{ self.a() }}{% endblock %}",
    "call blocks": _often(
        "{% call m() %}{{ i }}{% endcall %}" * 9, "{% macro m() %}{{ caller() }}{% endmacro %}"
    ),
    "loop.changed": _nested("{{ loop.changed(j) }}"),
    "loop.length": _often("{% for j in range(99999)|select %}{{ loop.length }}{% break %}{% endfor %}"),
    "find": _often("{{ x.find('b') }}", "{% set x = 'a' * 2000000 %}"),
    "count": _often("{{ x.count('a') }}", "{% set x = 'a' * 2000000 %}"),
    "in text": _often("{{ y in x }}", "{% set x = 'a' * 2000000 %}{% set y = 'a' * 99999 ~ 'b' %}"),
    "in range": _often("{{ 1.5 in range(99999) }}"),
    "is in": _often("{{ -1 is in x }}", "{% set x = range(99999)|list %}"),
    "index": _often("{{ x.index(99998) }}", "{% set x = range(99999)|list %}"),
    "compared lists": _often("{% if x == y %}{% endif %}", _COMPARED),
    "compared often": _COMPARED + _often("{{ " + " and ".join(["x == y"] * 100) + " }}"),
    "sort": _often("{{ range(99999)|sort|length }}"),
    "unique": _often("{{ range(99999)|unique|list|length }}"),
    "max": _often("{{ range(99999)|max }}"),
    "reversed": _often("{{ x[::-1]|length }}", "{% set x = range(99999)|list %}"),
    "dict views": _often("{{ (d.keys() - d.keys())|length }}", "{% set d = dict.fromkeys(range(9999)) %}"),
    "rfind": "{{ ('a' * 4000000).rfind('b' + 'a' * 2000000) }}",
    "rsplit": "{{ ('a' * 4000000).rsplit('b' + 'a' * 2000000) }}",
    "strip": "{{ ('a' * 4000000).strip('b' * 2000000 + 'a') }}",
    "trim": "{{ ('a' * 4000000)|trim('b' * 2000000 + 'a') }}",
    "sum of lists": "{{ ([[1]] * 99999)|sum(start=[]) }}",
    "sum of many lists": "{% set x = [1] * 50000 %}{{ [x, x, x]|sum(start=[]) }}",
    "round": "{{ 1|round(1000000000) }}",
    "round down": "{{ 1.5|round(1000000, 'floor') }}",
    "power": "{{ 9 ** (9 ** 9) }}",
    "big power": "{{ 2 ** 100000000 }}",
    "float power": "{{ 10.0 ** 1000 }}",
    "squares": "{% set n = namespace(x=3) %}{% for i in range(60) %}{% set n.x = n.x * n.x %}{% endfor %}",
    "long hexadecimal": "{{ 0x" + "f" * 99999 + " * 3 % 7 }}",
    "long decimal": "{{ " + "9" * 99999 + " }}",
    "integer by base": "{{ ('f' * 4000000)|int(base=16) }}",
    "percent signs": "{{ ('%' * 4000000) % () }}",
    "percent keys": "{{ ('%(' * 1000000) % {} }}",
    "title": "{{ ('a ' * 2000000)|title }}",
    "urlencode": "{{ ('é ' * 1000000)|urlencode }}",
    "urlize": "{{ ('http://a.b/ ' * 1000)|urlize }}",
    "striptags": "{{ ('<!--' * 1000000)|striptags }}",
    "striptags of markup": "{{ ('<!--' * 1000000)|safe|attr('striptags')() }}{{ ('<!--'|safe).striptags() }}",
    "date": "{{ strftime_now('%c' * 1000000) }}",
}

MEMORY = {
    "text times number": "{{ 'x' * 10**10 }}",
    "text times constant": "{{ 'x' * 10000000000 }}",
    "number times text": "{{ 10000000000 * 'x' }}",
    "list times number": "{{ ['x'] * 10000000000 }}",
    "doubled by plus": _dag("'x'", "n.x + n.x"),
    "doubled by tilde": _dag("'x'", "n.x ~ n.x"),
    "doubled list": _dag("[1]", "n.x + n.x"),
    "upper case that grows": _dag("'ΐ'", "(n.x + n.x).upper()"),
    "center": "{{ 'x'|center(10000000000) }}",
    "center method": "{{ 'x'.center(10000000000) }}",
    "ljust": "{{ 'x'.ljust(10**10) }}",
    "rjust": "{{ 'x'.rjust(width=10**10) if false else 'x'.rjust(10**10) }}",
    "zfill": "{{ 'x'.zfill(10**10) }}",
    "expandtabs": "{{ '\\t'.expandtabs(10**10) }}",
    "format width": "{{ '{:>10000000000}'.format('x') }}",
    "format computed width": "{{ '{:{w}}'.format('x', w=10**10) }}",
    "format precision": "{{ '{0:.1000000000f}'.format(1.5) }}",
    "format_map": "{{ '{a:>10000000000}'.format_map({'a': 'x'}) }}",
    "format other digits": "{{ '{:>９９９９９９９９９９}'.format('x') }}",
    "format many fields": "{{ ('{0:>9999}' * 99999).format('x') }}",
    "format one text often": "{{ ('{0}' * 99999).format('x' * 99999) }}",
    "format by filter": "{{ ('{:>10000000000}'|attr('format'))(1) }}",
    "format by map": "{{ (['{:>10000000000}']|map(attribute='format')|first)(1) }}",
    "format one attribute often": "{% set n = namespace(a='x' * 3000000) %}{{ ('{0.a}' * 3000).format(n) }}",
    "format of markup": "{{ ('{:>1000000000}'|safe).format('x') }}",
    "format filter": "{{ '%1000000000d'|format(1) }}",
    "percent width": "{{ '%1000000000d' % 1 }}",
    "percent computed width": "{{ '%*d' % (1000000000, 1) }}",
    "percent nested key": "{{ '%(a(b)c)1000000000s' % {'a(b)c': 'x'} }}",
    "percent many fields": "{{ ('%9999d' * 99999) % ((1,) * 99999) }}",
    "percent one text often": "{{ ('%(a)s' * 99999) % {'a': 'x' * 99999} }}",
    "join": "{{ range(99999)|join('x' * 99999) }}",
    "join method": "{{ ('x' * 99999).join(['a'] * 99999) }}",
    "join letters": "{{ ('x' * 4000000)|join(',') }}",
    "join of attributes": "{% set n = namespace(a='x' * 3000000) %}{{ ([n] * 60000)|join(attribute='a') }}",
    "arguments": "{% set x = 'x' * 3000000 %}{% macro m() %}{{ varargs }}{% endmacro %}{{ m("
    + "x, " * 2000
    + ") }}",
    "named arguments": "{% set x = 'x' * 3000000 %}{% macro m() %}{{ kwargs }}{% endmacro %}{{ m("
    + ", ".join(f"a{number}=x" for number in range(2000))
    + ") }}",
    "cycler": "{% set x = 'x' * 3000000 %}{{ cycler(" + "x, " * 2000 + ").items }}",
    "many cyclers": "{{ [" + "cycler(*range(99999)), " * 1500 + "] }}",
    "filled batches": "{% set x = 'x' * 3000000 %}{% for b in [1]|batch(9999, x) %}{{ b }}{% endfor %}",
    "join of a generator": "{{ (['a' * 3000000] * 60000)|map('upper')|join }}",
    "join method of a generator": "{{ ''.join((['a' * 3000000] * 60000)|map('upper')) }}",
    "replace": "{{ ('x' * 99999)|replace('x', 'y' * 99999) }}",
    "replace nothing": "{{ ('x' * 99999).replace('', 'y' * 99999) }}",
    "indent": "{{ ('\\n' * 99999)|indent(9999) }}",
    "indent by number": "{{ 'x'|indent(10**10, true) }}",
    "indent by text": "{{ ('\\n' * 99999)|indent('x' * 99999) }}",
    "split": "{{ ('ab,' * 1000000).split(',')|length }}",
    "split at spaces": "{{ ('ab ' * 1000000).split()|length }}",
    "splitlines": "{{ ('ab\\n' * 1000000).splitlines()|length }}",
    "letters": "{{ ('é' * 2000000)|list|length }}",
    "slices": "{% set x = 'a' * 4000000 %}{% set y = [" + ",".join(f"x[{i}:]" for i in range(2000)) + "] %}",
    "tildes": "{% set x = 'a' * 2000000 %}{% set y = [" + ",".join(f"x ~ {i}" for i in range(2000)) + "] %}",
    "calls": "{% set x = 'a' * 2000000 %}{% set y = [" + ",".join(["x.upper()"] * 2000) + "] %}",
    "texts of lists": "{% set x = ['a' * 2000000] %}{% set y = [" + ",".join(["x|string"] * 2000) + "] %}",
    "slice filter": "{{ range(10)|slice(10000000000)|list }}",
    "batch filter": "{{ range(10)|batch(10000000000, 'x')|list }}",
    "json indent": "{{ [1]|tojson(indent=1000000000) }}",
    "json deep indent": "{{ ([[1]] * 50000)|tojson(indent=9999) }}",
    "json separators": "{{ ([1] * 99999)|tojson(separators=('x' * 99999, 'y')) }}",
    "printed tree": _dag("[1]", "[n.x, n.x]"),
    "printed tree of slices": _dag("[1]", "[n.x, n.x][0:2]"),
    "printed tree of batches": _dag("[1]", "[n.x, n.x]|batch(1)|list"),
    "printed tree of fillings": _dag("[1]", "[n.x]|batch(2, n.x)|first"),
    "printed tree of views": _dag("1", "[{'a': n.x, 'b': n.x}.items()]"),
    "printed tree of values": _dag("1", "{'a': n.x, 'b': n.x}.values()"),
    "compared tree of views": _dag("1", "[{'a': n.x, 'b': n.x}.items()]", "{{ n.x == n.x[:] }}"),
    "nested generators": "{% set n = namespace(x=[1]) %}"
    + _often("{% set n.x = n.x|select %}")
    + "{{ n.x|list }}",
    "deep namespaces": "{% set m = namespace(n=1) %}"
    + _often("{% set m.n = namespace(n=m.n) %}")
    + "{{ 'x' * 10**9 }}",
    "hashed tree": _dag("(1,)", "(n.x, n.x)", "{{ {n.x: 1} }}"),
    "json tree": _dag("{}", "{'a': n.x, 'b': n.x}", "{{ n.x|tojson }}"),
    "tree of dicts": _dag("{}", "dict(a=n.x, b=n.x)", "{{ n.x|tojson }}"),
    "deep list": "{% set n = namespace(x=[]) %}" + _often("{% set n.x = [n.x] %}") + "{{ n.x }}",
    "deep key": "{% set n = namespace(x=()) %}" + _often("{% set n.x = (n.x,) %}") + "{{ {n.x: 1} }}",
    "many generators": _often("{{ range(99999)|map('slice', 1)|list|length }}"),
    "many integers": _often("{% set n.x = [n.x[:1], range(99999)|list] %}", "{% set n = namespace(x=[]) %}"),
    "many macros": _often(
        "{% macro m() %}{% endmacro %}{% set n.x = n.x + [m] %}", "{% set n = namespace(x=[]) %}"
    ),
    "big output": _often("x" * 9999),
    "big output of a macro": "{% macro m() %}" + _often("x" * 9999) + "{% endmacro %}{{ m() }}",
    "many pieces": _nested(_IFS * 400),
    "many pieces in a block": _often("{% set x %}" + _IFS * 1000 + "{% endset %}"),
    "many pieces in a macro": "{% macro m() %}" + _nested(_IFS * 400) + "{% endmacro %}{{ m() }}",
    "escape": "{{ ('&' * 4000000)|e }}",
    "markup plus text": "{{ ('a'|safe) + '&' * 4000000 }}",
    "markup join": "{{ (','|safe).join(['&' * 4000] * 1000) }}",
    "automatic escape": "{% autoescape true %}" + _often("{{ '&' * 9999 }}") + "{% endautoescape %}",
    "lorem ipsum": "{{ lipsum(10000000) }}",
    "bytes of a number": "{{ (1).to_bytes(100000000, 'big') }}",
    "translate": "{{ ('x' * 99999).translate({120: 'y' * 99999}) }}",
    "fromkeys": "{{ {}.fromkeys(range(99999), 1) }}",
}

SECRETS = {
    "class": "{{ ''.__class__ }}",
    "class's parents": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "class as item": "{{ ''['__class__'] }}",
    "class by filter": "{{ ''|attr('__class__') }}",
    "class by format": "{{ '{0.__class__}'.format(1) }}",
    "class by format_map": "{{ '{a.__class__}'.format_map({'a': 1}) }}",
    "class by map": "{{ ['']|map(attribute='__class__')|list }}",
    "class by sort": "{{ ['', '']|sort(attribute='__class__') }}",
    "class by groupby": "{{ ['']|groupby('__class__') }}",
    "globals of a function": "{{ lipsum.__globals__['os'].system('touch MARKER') }}",
    "globals of a class": "{{ cycler.__init__.__globals__['os'].system('touch MARKER') }}",
    "globals of ours": "{{ raise_exception.__globals__ }}",
    "globals of a namespace": "{{ namespace.__init__.__globals__ }}",
    "globals of the date": "{{ strftime_now._now.__self__ }}",
    "sandbox of a format": "{{ 'x'.format._sandbox.globals }}",
    "context of self": "{{ self._TemplateReference__context }}",
    "private name": "{{ namespace(__class__=1) }}",
    "private name later": "{% set n = namespace() %}{% set n.__class__ = 1 %}",
    "include": "{% include '/etc/passwd' %}",
    "import": "{% import '/etc/passwd' as os %}",
    "extends": "{% extends '/etc/passwd' %}",
    "encode": "{{ 'x'.encode() }}",
    "unescape": "{{ ('&amp;'|safe).unescape() }}",
}

CHANGES = {
    "append": "{{ messages.append({'role': 'user', 'content': 'more'}) }}",
    "pop": "{{ messages.pop() }}",
    "clear": "{{ messages.clear() }}",
    "update": "{{ messages[0].update({'content': 'other'}) }}",
    "pop by filter": "{{ messages|attr('pop')() }}",
    "set": "{% set messages[0].content = 'x' %}",
    "set by map": "{{ [messages]|map('attr', 'clear')|first }}{{ messages.clear() }}",
}

SOURCES = {
    "parentheses": "{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}",
    "lists": "{{ " + "[" * 9999 + "]" * 9999 + " }}",
    "signs": "{{ " + "-" * 9999 + "1 }}",
    "nots": "{{ " + "not " * 9999 + "1 }}",
    "sums": "{{ " + "+".join("1" * 7000) + " }}",
    "attributes": "{{ x" + ".a" * 7000 + " }}",
    "filters": "{{ 1" + "|abs" * 7000 + " }}",
    "elifs": "{% if 0 %}" + "{% elif 0 %}" * 3000 + "{% endif %}",
    "nested ifs": "{% if 1 %}" * 2000 + "{% endif %}" * 2000,
    "nested fors": "{% for i in x %}" * 200 + "{% endfor %}" * 200,
    "deep fors": "{% for i in range(100) %}" * 19 + "x" + "{% endfor %}" * 19,
    "many tokens": "{{a}}" * 25000,
    "many characters": "x" * 200_000,
    "open comment": "{#" * 60000,
    "open braces": "{{" * 60000,
    "open tags": "{% " * 40000,
    "open spaces": "{%" + " " * 120000,
    "open quote": "{{ '" + "\\" * 99999,
    "half a call": '{{ a["foo"(',
    "unknown tag": "{% debug %}",
    "a statement": "{% do messages.append(1) %}",
    "empty": " \n",
}

ALL = {
    f"{kind}: {name}": source
    for kind, group in (("time", TIME), ("memory", MEMORY), ("secrets", SECRETS), ("changes", CHANGES))
    for name, source in group.items()
} | {f"source: {name}": source for name, source in SOURCES.items()}


def _peak_growth_mb(seconds: float) -> float:
    import resource

    from engine.errors import TemplateError
    from engine.text.limits import Limits
    from engine.text.template import ChatTemplate
    from engine.types import Message

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, source in ALL.items():
        try:
            ChatTemplate(source, limits=Limits(seconds=seconds)).render([Message("user", "hi")])
        except TemplateError:
            continue
        raise AssertionError(f"{name} was rendered")
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


if __name__ == "__main__":
    print(_peak_growth_mb(seconds=0.1))
