# A program calls _s_name where it says name: gojq's own function behind a guard. A guard (_g_…, in guards.go) looks at the values that the
# function is about to work on, and returns its input or an error. _x_… (in sort.go and match.go) do the work themselves.

def _s_tojson: _g_text | tojson;
def _s_tostring: _g_text | tostring;
def _s_format($f): _g_text | format($f) | _g_string;
def _s_explode: _g_string | explode;
def _s_implode: _g_list | implode | _g_string;
def _s_split($x): _g_string | split($x);
def _s_join($x): _g_join($x) | join($x);
def _s_fromjson: _g_string | fromjson;
def _s_tonumber: _g_digits | tonumber;
def _s_add: _g_add | add;
def _s_flatten: _g_tree | flatten;
def _s_flatten($d): _g_tree | flatten($d);
def _s_transpose: _g_transpose | transpose;
def _s_contains($x): _g_contains($x) | contains($x);
def _s_inside($x): _g_contains($x) | inside($x);
def _s_indices($x): _g_pair($x) | indices($x);
def _s_index($x): _g_pair($x) | index($x);
def _s_rindex($x): _g_pair($x) | rindex($x);
def _s_getpath($p): _g_path($p) | getpath($p);
def _s_setpath(p; v): v as $v | p as $p | _g_path($p) | setpath($p; $v);
def _s_delpaths($p): _g_paths($p) | _g_tree | delpaths($p);
def _s_bsearch($x): ($x | _g_tree) as $y | _g_tree | bsearch($y);
def _s_min: _g_tree | min;
def _s_max: _g_tree | max;
def _s__min_by($x): ($x | _g_tree) as $y | _g_list | _min_by($y);
def _s__max_by($x): ($x | _g_tree) as $y | _g_list | _max_by($y);
def _s_sort: _x_sort(.);
def _s_unique: _x_unique(.);
def _s__sort_by($x): _x_sort($x);
def _s__group_by($x): _x_group($x);
def _s__unique_by($x): _x_unique($x);
def _s__match($re; $flags; $test): _x_match($re; $flags; $test);
def _s_strftime($f): _g_format($f) | strftime($f);
def _s_strflocaltime($f): _g_format($f) | strflocaltime($f);
def _s_strptime($f): _g_format($f) | _g_string | strptime($f);

# Operators. jq goes through the values of the right operand in the outer loop. gojq itself calls the first three for +=, -= and *=.
def _add(l; $r): l as $l | _g_plus($l; $r) | $l + $r;
def _subtract(l; $r): l as $l | _g_minus($l; $r) | $l - $r;
def _multiply(l; $r): l as $l | _g_times($l; $r) | $l * $r;
def _equal(l; $r): l as $l | _g_trees($l; $r) | $l == $r;
def _notequal(l; $r): l as $l | _g_trees($l; $r) | $l != $r;
def _greater(l; $r): l as $l | _g_trees($l; $r) | $l > $r;
def _less(l; $r): l as $l | _g_trees($l; $r) | $l < $r;
def _greatereq(l; $r): l as $l | _g_trees($l; $r) | $l >= $r;
def _lesseq(l; $r): l as $l | _g_trees($l; $r) | $l <= $r;

# The places of an update, after a look at their paths.
def _checked(p): ([path(p)] | _g_paths(.)) as $paths | getpath($paths[]);
