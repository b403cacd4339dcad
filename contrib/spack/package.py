# A recipe for Spack.  Nobody has run it.  To try it, put it into a repository of your own
# (spack repo create) as packages/slurm_megatron/package.py; in Spack before 1.0 the folder is
# packages/slurm-megatron, and the line "from spack_repo..." is not needed.
from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class SlurmMegatron(AutotoolsPackage):
    """A SPANK plugin for Slurm, a command and a library that train and run language models in
    parallel.

    The plugin works with the release of Slurm that it was built for: name yours as an external
    package.  Spack writes nothing into /etc: link
    PREFIX/share/slurm-megatron/plugstack-megatron.conf into /etc/slurm/plugstack.conf.d.
    """

    # There is no release to fetch.  In an environment of Spack, name a checkout:
    # spack develop --no-clone --path CHECKOUT slurm-megatron@main
    version("main")

    license("BSD-3-Clause")

    variant("slurm", default=True, description="The SPANK plugin")
    variant("pmix", default=True, description="Ranks find each other by PMIx")
    variant("mpi", default=True, description="Ranks talk through MPI")
    variant("ucx", default=True, description="Ranks talk through UCX")
    variant("onednn", default=True, description="Products of oneDNN on the CPU")
    variant("serve", default=True, description="megatron serve, by libmicrohttpd")
    variant("cuda", default=False, description="Modules for NVIDIA GPUs, with NCCL if it is there")
    variant(
        "cuda_arch",
        default="none",
        multi=True,
        values=("none", "80", "86", "89", "90", "100", "120"),
        description="Architectures of the kernels; none: those of configure",
    )

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("bzip2")
    depends_on("jansson@2.10:")
    depends_on("libyaml@0.2:")
    depends_on("pcre2")
    depends_on("protobuf-c")
    depends_on("utf8proc")
    depends_on("xxhash@0.8:")
    depends_on("xz")
    depends_on("zlib-api")
    depends_on("zstd")
    depends_on("slurm", when="+slurm")
    depends_on("pmix", when="+pmix")
    depends_on("mpi", when="+mpi")
    depends_on("ucx@1.13:", when="+ucx")
    depends_on("onednn", when="+onednn")
    depends_on("libmicrohttpd@0.9.71:", when="+serve")
    depends_on("cuda@13:", when="+cuda")

    def autoreconf(self, spec, prefix):
        Executable("./bootstrap")()

    def configure_args(self):
        spec = self.spec
        # configure takes a folder where the library is not found by pkg-config
        folders = {"slurm": "slurm", "pmix": "pmix", "mpi": "mpi", "ucx": "ucx", "onednn": "onednn"}
        args = []
        for name, package in folders.items():
            if spec.satisfies("+" + name):
                args.append("--with-{0}={1}".format(name, spec[package].prefix))
            else:
                args.append("--without-" + name)
        args.append("--with-microhttpd=yes" if spec.satisfies("+serve") else "--without-microhttpd")
        if spec.satisfies("+cuda"):
            args.append("--with-cuda={0}".format(spec["cuda"].prefix))
            arch = spec.variants["cuda_arch"].value
            if "none" not in arch:
                args.append("--with-cuda-arch={0}".format(",".join(arch)))
        else:
            args.append("--without-cuda")
        return args
