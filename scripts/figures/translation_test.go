package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A page in Chinese has its own words and the original's figures, and pictures of its own.
func TestTranslation(t *testing.T) {
	const original = `# R1

![R1: ratios](R1.svg)

<!-- counts -->
?

<!-- table claims -->

|  | what is claimed | published | measured | outcome | why |
| --- | --- | --- | --- | --- | --- |
| R1.1/a | faster | 2× | 1.50 (1.20 … 2.00) | smaller | half |
| R1.1/b | less | less | 0.5 | holds |  |
`
	translated := func(rows string) string {
		return `# R1

![R1：比值](R1.zh.svg)

<!-- counts -->
?

<!-- table claims -->

|  | 论断 | 公布值 | 实测值 | 结论 | 原因 |
| --- | --- | --- | --- | --- | --- |
` + rows
	}
	dir := folder(t, map[string]string{"R1.md": original, "R1.zh.md": translated(`| R1.1/a | 更快 | 2× | 9 | 成立 | 一半 |
| R1.1/b | 更少 | 更少 |  |  |  |
`)})
	if err := drawAll(dir); err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(translated(`| R1.1/a | 更快 | 2× | 1.50 (1.20 … 2.00) | 小于公布值 | 一半 |
| R1.1/b | 更少 | 更少 | 0.5 | 成立 |  |
`), "?", "共 2 条论断：1 条成立，1 条小于公布值。", 1)
	if got, err := os.ReadFile(filepath.Join(dir, "R1.zh.md")); err != nil || string(got) != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, got, want)
	}
	drawn, err := os.ReadFile(filepath.Join(dir, "R1.zh.svg"))
	if err != nil || !strings.Contains(string(drawn), ">小于公布值<") || !strings.Contains(string(drawn), "</tspan> 更快") {
		t.Errorf("%v\n%s", err, drawn)
	}
	for name, wrong := range map[string]string{
		"other order": "| R1.1/b | 更少 | 更少 |  |  |  |\n| R1.1/a | 更快 | 2× | 9 | 成立 | 一半 |\n",
		"no row":      "| R1.1/a | 更快 | 2× | 9 | 成立 | 一半 |\n",
		"no cell":     "| R1.1/a | 更快 | 2× | 9 | 成立 |\n| R1.1/b | 更少 | 更少 |  |  |  |\n",
	} {
		if err := translate(filepath.Join(folder(t, map[string]string{"R1.md": original, "R1.zh.md": translated(wrong)}), "R1.zh.md")); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
