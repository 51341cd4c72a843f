//! What a compiled binary tells about itself: its architecture, and what it needs of the host.

use std::fs;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use crate::Result;
use crate::programs::{capture, program};

type ElfHeader = elf::FileHeader64<Endianness>;

/// A binary without symbols, and the file that it was read from.
#[derive(Debug)]
pub(super) struct Binary {
    file: PathBuf,
    content: Vec<u8>,
    architecture: Architecture,
    linkage: Linkage,
}

/// The architectures that Stead is packaged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Architecture {
    X86_64,
    Arm64,
}

/// What a binary needs at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Linkage {
    /// Nothing but the kernel.
    Static,
    /// The GNU C library in this version or a newer one, and these shared libraries.
    Glibc { version: (u32, u32), libraries: Vec<String> },
}

impl Binary {
    /// Reads a binary. Symbols and debug information are removed from what is packaged, not from the file.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let describe = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let mut content = fs::read(file).map_err(|error| describe(&error))?;
        let facts = ElfFacts::parse(&content).map_err(|error| describe(&error))?;
        if facts.has_symbols {
            content = without_symbols(file)?;
        }
        Ok(Binary {
            file: file.to_owned(),
            content,
            architecture: facts.architecture,
            linkage: facts.linkage,
        })
    }

    /// The bytes to package.
    pub(super) fn content(&self) -> &[u8] {
        &self.content
    }

    /// The file that the binary was read from.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// The architecture that it runs on.
    pub(super) fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// What it needs at run time.
    pub(super) fn linkage(&self) -> &Linkage {
        &self.linkage
    }
}

impl Architecture {
    /// The name that Rust, the kernel and Python use.
    pub(super) fn rust_name(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64",
            Architecture::Arm64 => "aarch64",
        }
    }

    /// The name that Debian and Docker use.
    pub(super) fn debian_name(self) -> &'static str {
        match self {
            Architecture::X86_64 => "amd64",
            Architecture::Arm64 => "arm64",
        }
    }

    /// The name that Node uses.
    pub(super) fn node_name(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x64",
            Architecture::Arm64 => "arm64",
        }
    }
}

/// What the headers of an ELF file say.
#[derive(Debug)]
struct ElfFacts {
    architecture: Architecture,
    linkage: Linkage,
    has_symbols: bool,
}

impl ElfFacts {
    fn parse(content: &[u8]) -> Result<Self> {
        let header = ElfHeader::parse(content).map_err(|_| "this isn't a 64-bit Linux binary")?;
        let endian = header.endian()?;
        let architecture = match header.e_machine(endian) {
            elf::EM_X86_64 => Architecture::X86_64,
            elf::EM_AARCH64 => Architecture::Arm64,
            _ => {
                return Err("Stead is packaged for x86-64 and arm64, and this is another architecture".into());
            }
        };
        let sections = header.sections(endian, content)?;
        let mut segments = header.program_headers(endian, content)?.iter();
        let has_interpreter = segments.any(|segment| segment.p_type(endian) == elf::PT_INTERP);
        let has_symbols = sections.iter().any(|section| section.sh_type(endian) == elf::SHT_SYMTAB);
        let dynamic = sections.dynamic_table(endian, content)?;
        let mut libraries = Vec::new();
        for entry in dynamic.iter().filter(|entry| entry.tag == elf::DT_NEEDED) {
            libraries.push(String::from_utf8_lossy(dynamic.string(entry)?).into_owned());
        }
        let mut versions = Vec::new();
        if let Some((mut needs, strings)) = sections.gnu_verneed(endian, content)? {
            let strings = sections.strings(endian, content, strings)?;
            while let Some((_, mut needed)) = needs.next()? {
                while let Some(version) = needed.next()? {
                    versions.push(String::from_utf8_lossy(version.name(endian, strings)?).into_owned());
                }
            }
        }
        Ok(ElfFacts { architecture, linkage: linkage(has_interpreter, libraries, &versions)?, has_symbols })
    }
}

/// The linkage of a binary that needs these libraries and these versions of their symbols. A binary with an interpreter
/// is loaded by the C library's loader, even if it names no library.
fn linkage(has_interpreter: bool, libraries: Vec<String>, versions: &[String]) -> Result<Linkage> {
    if !has_interpreter && libraries.is_empty() {
        return Ok(Linkage::Static);
    }
    let glibc = versions.iter().filter_map(|version| {
        // GLIBC_2.34; also GLIBC_2.2.5, of which the first two numbers count, and GLIBC_PRIVATE, which has none.
        let mut numbers = version.strip_prefix("GLIBC_")?.split('.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    let version = glibc.max().ok_or("it is linked with another C library than glibc; link it statically")?;
    Ok(Linkage::Glibc { version, libraries })
}

fn without_symbols(file: &Path) -> Result<Vec<u8>> {
    let directory = tempfile::tempdir()?;
    let stripped = directory.path().join("stead");
    capture(program("strip").arg("-o").arg(&stripped).arg(file))?;
    Ok(fs::read(stripped)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn the_newest_version_of_the_c_library_counts_by_number_not_by_text() {
        let versions = texts(&["GLIBC_2.4", "GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_PRIVATE", "GCC_4.2.0"]);
        let libraries = texts(&["libc.so.6"]);
        let expected = Linkage::Glibc { version: (2, 34), libraries: libraries.clone() };
        assert_eq!(linkage(true, libraries, &versions).unwrap(), expected);
    }

    #[test]
    fn a_binary_without_shared_libraries_is_static() {
        assert_eq!(linkage(false, Vec::new(), &[]).unwrap(), Linkage::Static);
    }

    #[test]
    fn a_binary_of_another_c_library_is_refused() {
        assert!(linkage(true, texts(&["libc.musl-x86_64.so.1"]), &[]).is_err());
        assert!(linkage(true, Vec::new(), &[]).is_err());
    }

    #[test]
    fn this_test_program_is_read_as_what_it_is() {
        let facts = ElfFacts::parse(&fs::read(std::env::current_exe().unwrap()).unwrap()).unwrap();
        assert_eq!(facts.architecture.rust_name(), std::env::consts::ARCH);
        assert!(facts.has_symbols);
        assert_eq!(facts.linkage == Linkage::Static, cfg!(target_feature = "crt-static"));
    }

    #[test]
    fn a_file_that_is_not_a_binary_is_refused() {
        assert!(ElfFacts::parse(b"#!/bin/sh\n").is_err());
    }
}
