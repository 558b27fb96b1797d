package main

import "strings"

// sentence turns the name of a test into one.
func sentence(name string) string {
	name, variant, _ := strings.Cut(strings.TrimPrefix(name, "Test"), "/")
	var words []string
	begin := 0
	for i := 1; i <= len(name); i++ {
		if i < len(name) && (!upper(name, i) || upper(name, i-1) && (i+1 == len(name) || upper(name, i+1))) {
			continue
		}
		word := name[begin:i]
		if begin > 0 && (len(word) == 1 || !upper(word, 1)) {
			word = strings.ToLower(word)
		}
		words, begin = append(words, word), i
	}
	if variant != "" {
		variant = ": " + strings.NewReplacer("_", " ", "/", ": ").Replace(variant)
	}
	return strings.Join(words, " ") + variant
}

func upper(name string, i int) bool { return name[i] >= 'A' && name[i] <= 'Z' }
