//go:build !race

package html

const hourVariants = 8
