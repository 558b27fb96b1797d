package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestTheWantedReleaseIsPickedOrTheNewestPatchOfIt(t *testing.T) {
	for name, test := range map[string]struct {
		releases []string
		want     string
	}{
		"the wanted one":                     {[]string{"v1.37.0", "v1.37.1", "v1.37.2", "v1.38.0"}, "v1.37.1"},
		"an older patch":                     {[]string{"v1.36.9", "v1.37.0"}, "v1.37.0"},
		"the newest patch":                   {[]string{"v1.37.9", "v1.37.10", "v1.37.0"}, "v1.37.10"},
		"no release candidate":               {[]string{"v1.37.0", "v1.37.2-rc.0"}, "v1.37.0"},
		"names that are no releases, passed": {[]string{"latest", "v1.37.0"}, "v1.37.0"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			x, err := parseIndex([]byte(indexOf(test.releases...)))
			g.Expect(err).NotTo(HaveOccurred())
			release, archive, err := x.pick("v1.37.1", platform)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(release).To(Equal(test.want))
			g.Expect(archive.URL).To(Equal(archiveURL(test.want)))
			g.Expect(archive.Hash).To(HaveLen(128))
		})
	}
}

func TestWhatIsNoReleaseIsRefused(t *testing.T) {
	_, _, err := index{}.pick("1.x", platform)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring(`"1.x" is not a Kubernetes release`)))
}
