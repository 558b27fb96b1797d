package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// As the runner writes to the SysRq trigger, and as a shell does.
func TestAllThatIsWrittenToAPipeIsKept(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "sysrq")
	p, err := openPipe(path)
	g.Expect(err).NotTo(HaveOccurred())
	for _, flag := range []int{0, os.O_TRUNC, os.O_APPEND} {
		file, err := os.OpenFile(path, os.O_WRONLY|flag, 0)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = file.WriteString("s")
		g.Expect(err).NotTo(HaveOccurred())
		_, err = file.WriteString("u")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(file.Close()).To(Succeed())
	}
	g.Eventually(p.text, 10*time.Second).Should(Equal("sususu"))
	g.Expect(p.close()).To(Succeed())
	g.Expect(p.close()).To(Succeed(), "again")
}
