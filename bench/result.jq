# What run.json holds, as the result lines that README's figures come from.
def of($base; $variant; $metric): .comparisons[] | select(.base == $base and .variant == $variant and .metric == $metric) | .ratio;
# A single round has no interval.
def inverse: {estimate: (1 / .estimate), low: (.high | if . then 1 / . else null end), high: (.low | if . then 1 / . else null end)};
def interval: "\(.estimate) (\(.low) … \(.high))";
def signed: (. * 1000 | round / 10) | if . < 0 then "−\(-.)" else "+\(.)" end;
def change: "\(.low - 1 | signed) … \(.high - 1 | signed) %";
